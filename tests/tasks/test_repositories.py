"""Generated repositories: the bug is there, tests tell it apart, and nothing of the solution is shown."""

import json
import unittest
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.tasks import (
    COMPUTATION_LEVELS,
    PatchError,
    SplitSizes,
    TaskError,
    apply_patch,
    computation_strata,
    make_patch,
    payload_of,
    plain_value,
    repository_of,
    repository_row,
    repository_strata,
    same_value,
)


@pytest.fixture(scope="module")
def tasks():
    return [task for stratum in repository_strata(SplitSizes(train=40, held_out=8), seed=0) for task in stratum.train]


def test_equal_seeds_give_equal_tasks_and_other_seeds_others():
    sizes = SplitSizes(train=4, held_out=0)
    first, again, other = ([s.train for s in repository_strata(sizes, seed=seed)] for seed in (3, 3, 4))
    assert first == again != other


def test_the_fix_stands_in_one_place_and_the_bug_in_one(tasks):
    for task in tasks:
        repository = repository_of(task)
        broken = repository.files[repository.fix.path]
        assert broken.count(repository.fix.old) == 1
        assert repository.fixed != repository.files
        assert repository.fix.new not in broken or repository.fix.new in repository.fix.old


def test_every_task_has_hidden_tests_of_both_kinds(tasks):
    for task in tasks:
        repository = repository_of(task)
        ids = [test.test_id for test in (*repository.fail_to_pass, *repository.pass_to_pass)]
        assert len(repository.fail_to_pass) >= 2 and len(repository.pass_to_pass) >= 3
        assert len(ids) == len(set(ids))


def test_no_hidden_failing_test_stands_in_the_repository(tasks):
    for task in tasks:
        repository = repository_of(task)
        shown = "".join(repository.files.values()) + payload_of(task).messages[0].text
        for test in repository.fail_to_pass:
            name = test.function.split(":")[1]
            assert f"{name}({', '.join(map(repr, test.arguments))})" not in shown


def test_the_past_holds_the_bug_in_every_state(tasks):
    for task in tasks:
        repository = repository_of(task)
        assert repository.history[-1].files == repository.files
        for commit in repository.history:
            assert repository.fix.new not in commit.files.get(repository.fix.path, "") or (
                repository.fix.new in repository.fix.old
            )


def loaded(files, package):
    """The visible tests of a tree, run in this process: failures by name."""
    modules: dict[str, ModuleType] = {}
    for path in sorted(files, key=lambda path: (path.startswith("tests/"), f"{package}." in files[path], path)):
        if path.endswith(".py"):
            source = files[path]
            for name in list(modules):
                short = name.rsplit(".", 1)[-1]
                source = source.replace(f"from {package} import {short}\n", "")
            lines = [line for line in source.split("\n") if not line.startswith(f"from {package}.")]
            module = ModuleType(path.removesuffix(".py").replace("/", "."))
            for other in modules.values():
                vars(module)[other.__name__.rsplit(".", 1)[-1]] = other
            for line in source.split("\n"):
                if line.startswith(f"from {package}."):
                    origin, names = line.removeprefix("from ").split(" import ")
                    vars(module).update({one: vars(modules[origin])[one] for one in names.split(", ")})
            exec("\n".join(lines), vars(module))  # A template of this project.
            modules[module.__name__] = module
    found = unittest.TestResult()
    case = vars(modules[f"tests.test_{package}"])["Tests"]
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(found)
    return len(found.failures) + len(found.errors)


def test_of_the_visible_tests_one_fails_before_the_fix_and_none_after(tasks):
    for task in tasks:
        repository = repository_of(task)
        assert loaded(repository.files, repository.package) == 1
        assert loaded(repository.fixed, repository.package) == 0


@pytest.mark.row("S444")
def test_a_row_in_the_form_of_swe_bench_carries_a_patch_that_is_the_fix(tasks):
    for task in tasks:
        repository, row = repository_of(task), repository_row(task)
        assert apply_patch(repository.files, str(row["patch"])) == repository.fixed
        assert row["FAIL_TO_PASS"] and row["PASS_TO_PASS"]
        assert set(row) == {
            "instance_id",
            "repo",
            "base_commit",
            "problem_statement",
            "patch",
            "FAIL_TO_PASS",
            "PASS_TO_PASS",
        }


def test_a_task_of_another_kind_holds_no_repository():
    (stratum,) = computation_strata(SplitSizes(train=1, held_out=0), lowest=1, highest=1, seed=0)
    with pytest.raises(TaskError, match="holds no repository"):
        repository_of(stratum.train[0])


# -------------------------------------------------------------------------------------------------- patches and values

lines = st.lists(st.sampled_from(["a", "b", "", " c", "-d", "+e", "@@"]), max_size=8)
texts = st.tuples(lines, st.booleans()).map(lambda both: "\n".join(both[0]) + ("\n" if both[1] and both[0] else ""))
trees = st.dictionaries(st.sampled_from(["x.py", "p/y.py", "p/q/z"]), texts.filter(bool), max_size=3)


@given(trees, trees)
def test_a_patch_leads_from_one_tree_to_the_other(before, after):
    assert apply_patch(before, make_patch(before, after)) == after


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ("--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-x\n+y\n", "which there is not"),
        ("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-other\n+y\n", "not what the patch expects"),
        ("--- a/x.py\n+++ b/x.py\n@@ -9 +9 @@\n-x\n+y\n", "out of place"),
        ("--- a/x.py\n+++ b/../../etc/x\n@@ -1 +1 @@\n-x\n+y\n", "no path inside"),
        ("--- a/x.py\n+++ b/x.py\n@@ -1,3 +1 @@\n-x\n", "ends within a hunk|not what the patch expects"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_whole(patch, complaint):
    with pytest.raises(PatchError, match=complaint):
        apply_patch({"x.py": "x\n"}, patch)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values, values)
def test_plain_values_are_the_same_exactly_when_python_says_so_and_types_fit(one, other):
    given_one = json.loads(json.dumps(plain_value(one)))
    assert same_value(given_one, plain_value(one))
    if one != other:
        assert not same_value(given_one, plain_value(other))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (3, 3.0, True),
        (True, 1, False),
        ([1], (1,), False),
        ({1, 2}, {2, 1}, True),
        (float("nan"), float("nan"), False),
        (10**2000, 10**2000, False),
        (object(), object(), False),
        ("raises", ["raises", "E"], False),
    ],
)
def test_types_are_kept_where_python_would_call_values_equal(one, other, is_same):
    assert same_value(plain_value(one), plain_value(other)) is is_same


@given(st.recursive(st.none() | st.integers() | st.text(max_size=4), lambda i: st.lists(i, max_size=3), max_leaves=10))
def test_no_answer_of_a_program_can_break_the_comparison(answer):
    assert same_value(answer, plain_value([1, {"a": 2.5}])) is False


# -------------------------------------------------------------------------------------------------------- computations


def test_every_level_has_tasks_whose_splits_share_no_question():
    strata = computation_strata(SplitSizes(train=100, held_out=20), lowest=1, highest=5, seed=0)
    assert tuple(stratum.name for stratum in strata) == COMPUTATION_LEVELS
    for stratum in strata:
        questions = [payload_of(task).messages[0].text for task in (*stratum.train, *stratum.held_out)]
        assert len(questions) == len(set(questions)) >= 20


def test_levels_that_there_are_not_are_refused():
    with pytest.raises(TaskError, match="there are 1 to 5"):
        computation_strata(SplitSizes(train=1, held_out=0), lowest=3, highest=6, seed=0)
