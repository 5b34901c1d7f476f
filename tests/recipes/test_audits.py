"""Verifiers on labeled cases and under attack: nothing wrong is paid, and what is refused is refused for a reason."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from rollwright.cli.main import run_command
from rollwright.recipes.audits.cases import read_cases
from rollwright.recipes.audits.of_cases import CasesOrder, audit_cases
from rollwright.recipes.audits.red_team import Disagrees, MutatedProbes, RedTeam, ShareFound, run_red_team
from rollwright.recipes.build.named_verifiers import NamedVerifier, named_verifier
from rollwright.recipes.errors import RecipeError
from rollwright.record import Submission
from rollwright.tasks import SplitSizes, induction_source, trains_of
from rollwright.tasks import payload_of as read_payload
from rollwright.verifiers import AnswerRule, FunctionVerifier, Grade, rule_verifier
from rollwright.verifiers.answers import final_text
from rollwright.verifiers.metamorphic import TRANSFORMS
from rollwright.verifiers.probes import answer_probes, program_probes
from tests.cases import case
from tests.verifiers.submissions import submitted, task_of, verdict_of

CASES = Path(__file__).parents[1] / "data" / "audits"
AUDITED = ("exact", "numeric", "math", "json_schema", "unit_tests")


def written(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def labeled(answer: object, completion: object, label: object, **more: object) -> dict[str, object]:
    return {"task": {"question": "q?", "answer": answer}, "completion": completion, "label": label, **more}


@pytest.mark.parametrize("name", AUDITED)
def test_no_wrong_case_is_paid_and_every_false_reject_has_its_reason_in_the_file(name: str) -> None:
    found = audit_cases(CasesOrder(verifier=name, cases=CASES / f"{name}.jsonl"))
    assert [(one.case.id, one.said.evidence) for one in found.false_accepts] == []
    assert [one.case.id for one in found.false_rejects if not one.case.note] == []
    assert found.overall.num_right >= 14
    assert found.overall.num_wrong >= 35
    assert found.overall.false_rejects <= 0.1 * found.overall.num_right
    assert {one.case.kind for one in found.errors} <= {"bad gold", "bad schema", "bad tests"}
    assert not any(one.case.is_right for one in found.errors)


@pytest.mark.slow
def test_answers_that_would_take_for_ever_end_in_their_limit_unpaid() -> None:
    found = audit_cases(CasesOrder(verifier="math", cases=CASES / "math_heavy.jsonl"))
    assert found.overall.true_rejects == found.overall.num > 3


@pytest.fixture(scope="module")
def mathematics() -> Iterator[NamedVerifier]:
    made = named_verifier("math")
    yield made
    made.close()


@pytest.mark.case("F64")
@pytest.mark.case("F66")
def test_pairs_of_public_bug_reports_are_judged_as_they_should_be(mathematics: NamedVerifier) -> None:
    pairs = [
        (gold, given, is_right)
        for name in ("F64", "F66")
        for (gold, given), is_right in zip(case(name).input["pairs"], case(name).expect["correct"], strict=True)
    ]
    said = [verdict_of(mathematics.verifier, submitted(f"\\boxed{{{given}}}", gold)) for gold, given, _ in pairs]
    paid = [verdict.outcome == 1.0 for verdict in said]
    assert [pair for pair, is_paid in zip(pairs, paid, strict=True) if is_paid != pair[2]] == []
    assert not any(isinstance(verdict.outcome, str) for verdict in said)
    assert len(pairs) > 12


def test_the_command_ends_with_one_object_that_counts_and_names_every_mistake(tmp_path: Path, capsys) -> None:
    path = written(
        tmp_path,
        labeled("42", "42", True, id="a", kind="bare"),
        labeled("42", "41", True, id="b", kind="bare", note="labeled so on purpose"),
        labeled(42, "42", False, kind="bare"),
        "",
        labeled(None, "42", False, id="d", kind="no gold"),
    )
    assert run_command(["audit", "exact", "--cases", str(path), "--json"]) == 0
    *mistakes, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["event"]: one["id"] for one in mistakes} == {
        "false_accept": "line 3",
        "false_reject": "b",
        "error": "d",
    }
    assert (result["cases"], result["false_accepts"], result["false_rejects"], result["errors"]) == (4, 1, 1, 1)
    assert (result["false_accept_ids"], result["false_reject_ids"], result["error_ids"]) == (["line 3"], ["b"], ["d"])
    assert result["false_accept_rate"]["value"] == 1.0
    assert 0 < result["false_accept_rate"]["low"] < 1
    assert result["by_kind"]["no gold"]["errors"] == result["by_kind"]["no gold"]["cases"] == 1
    assert run_command(["audit", "exact", "--cases", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "false reject: b, bare (labeled so on purpose): 0.0" in shown
    assert run_command(["audit", "exact", "--cases", str(path), "--fail-on", "false_accepts"]) == 1


@pytest.mark.parametrize(("name", "errors"), [("math", [2, 3]), ("units", [2, 3]), ("unit_tests", [1, 3])])
def test_a_case_that_the_verifier_cannot_decide_is_an_error_and_in_no_rate(name: str, errors, tmp_path: Path) -> None:
    cases = written(
        tmp_path,
        labeled("5 km", "The answer is 5 km.", label=True),
        {"task": {"prompt": "Write add.", "tests": ["assert add(1, 2) == 3"]}, "submission": "x = 1", "label": False},
        {"task": {"prompt": "JSON.", "schema": {"type": "object"}}, "completion": "[]", "label": False},
    )
    found = audit_cases(CasesOrder(verifier=name, cases=cases))
    assert [mistake.case.line for mistake in found.errors] == errors
    assert all(
        mistake.said.evidence and "decided by the tests" not in mistake.said.evidence for mistake in found.errors
    )


def test_forms_in_which_people_write_cases_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"task": {"prompt": "2?", "answer": 2.5}, "submission": "2.5", "label": 1, "id": 7},
        {"task": {"messages": [{"role": "user", "content": "Café?"}], "answer": "é"}, "completion": "é", "label": True},
        labeled("x", [{"role": "assistant", "content": "x"}], True, id=7),
        labeled("x", None, False, kind=None),
        labeled("x", "\ud800", False),
    )
    cases = read_cases(path)
    assert [case.id for case in cases] == ["7 (line 1)", "line 2", "7 (line 3)", "line 4", "line 5"]
    assert [case.submission.passages[0].text for case in cases] == ["2.5", "é", "x", "", "?"]
    found = audit_cases(CasesOrder(verifier="exact", cases=path))
    assert (found.overall.true_accepts, found.overall.true_rejects) == (3, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 of .* is no JSON"),
        ("[1]", "line 2 of .* is a list"),
        ({"completion": "x", "label": True}, "has no task"),
        ({"task": {"question": "q", "answer": "x"}, "label": True}, "has no completion"),
        ({"task": {"question": "q", "answer": "x"}, "completion": "x"}, "has the label None"),
        (labeled("x", "x", "yes"), "has the label 'yes'"),
        (labeled("x", {"a": 1}, True), "its completion is an object"),
        ({**labeled("x", "x", True), "submission": "y"}, "one of both"),
        ({"task": {"messages": [{"role": "user"}], "answer": "x"}, "completion": "x", "label": True}, "needs `role`"),
    ],
)
def test_a_malformed_line_is_refused_by_its_number(tmp_path: Path, line: object, said: str, capsys) -> None:
    path = written(tmp_path, labeled("x", "x", True), line)
    with pytest.raises(RecipeError, match=said):
        read_cases(path)
    assert run_command(["audit", "exact", "--cases", str(path), "--json"]) == 2
    assert "line 2" in json.loads(capsys.readouterr().out)["error"]


def generous(data_source: str, solution_str: str, ground_truth: str, extra_info: object = None) -> float:
    """A reward function of another system that looks for the answer anywhere."""
    return float(ground_truth in solution_str)


def fails():
    def grade(submission: Submission) -> Grade:
        raise RuntimeError("out of order")

    return FunctionVerifier(name="fails", revision="1", grade=grade)


def test_a_verifier_from_outside_is_audited_by_its_path_and_its_errors_are_no_judgements(tmp_path: Path) -> None:
    path = written(tmp_path, labeled("42", "1 2 3 42", False), labeled("42", "42", True))
    weak = audit_cases(CasesOrder(verifier="tests.recipes.test_audits:generous", cases=path))
    assert (weak.overall.false_accepts, weak.overall.true_accepts) == (1, 1)
    broken = audit_cases(CasesOrder(verifier="tests.recipes.test_audits:fails", cases=path))
    assert broken.overall.errors == broken.overall.num == 2
    assert broken.overall.false_accept_rate is broken.overall.false_reject_rate is None


@pytest.mark.parametrize("name", ["exact", "numeric", "math", "units", "set", "text_match"])
def test_the_library_of_attacks_is_paid_by_no_verifier_of_answers(name: str, mathematics: NamedVerifier) -> None:
    golds = {"units": "5 cm", "set": "2, 3, 5", "text_match": "Ada Lovelace"}
    made = mathematics if name == "math" else named_verifier(name)
    try:
        task = task_of(golds.get(name, "1234"), question="What is it?")
        probes = [p for p in answer_probes(read_payload(task)) if name != "math" or p.kind != "huge exponent"]
        assert len({probe.kind for probe in probes}) > 18
        for probe in probes:
            verdict = verdict_of(made.verifier, replace(submitted(probe.text), task=task))
            assert isinstance(verdict.outcome, float), (probe, verdict)
            assert verdict.outcome < 1.0, (probe, verdict)
    finally:
        made.close()


@pytest.mark.row("S390")
def test_a_program_that_reads_for_hidden_tests_fails_and_what_it_tried_is_recorded() -> None:
    made = named_verifier("unit_tests")
    tests = {"entry_point": "f", "tests": [{"args": [n], "expected": 7 * n + 1} for n in (3, 4)]}
    reads = "def f(x):\n    return open('/tests/hidden_tests.json').read()\n"
    try:
        verdict = verdict_of(made.verifier, submitted(reads, "t", info=tests))
        assert verdict.outcome == 0.0
        assert "hidden_tests.json" in verdict.evidence
        assert "FileNotFoundError" in verdict.evidence or "PermissionError" in verdict.evidence
        short = {**tests, "wall_s": 0.5}
        for probe in program_probes("f"):
            assert verdict_of(made.verifier, submitted(probe.text, "t", info=short)).outcome == 0.0, probe
    finally:
        made.close()


@pytest.mark.row("S387")
def test_a_rule_survives_tasks_told_anew_and_a_list_of_the_examples_does_not() -> None:
    verifier = rule_verifier("extensional")
    source = induction_source(SplitSizes(train=6, held_out=2), seed=3)
    kept, lost = set[str](), set[str]()
    for task in source.train:
        payload = read_payload(task)
        rule = f"answer: {payload.answer}"
        cheat = "answer: " + " or ".join(f"train={t.name}" for t in trains_of(payload.info) if t.is_east)
        for text in (rule, cheat):
            assert verdict_of(verifier, replace(submitted(text), task=task)).outcome == 1.0
        for transform in TRANSFORMS:
            variant, again = transform.apply(task, 1), transform.apply(task, 1)
            if variant is None:
                continue
            assert again is not None
            assert variant == replace(variant, task=again.task)
            told = {
                t: verdict_of(verifier, replace(submitted(variant.carry(t)), task=variant.task)) for t in (rule, cheat)
            }
            assert told[rule].outcome == 1.0, (transform.name, variant.task.payload)
            kept.add(transform.kind)
            if told[cheat].outcome != 1.0:
                lost.add(transform.kind)
    assert kept == {"renaming", "permutation", "reparameterization"}
    assert "renaming" in lost


def test_options_in_another_order_keep_the_right_option() -> None:
    options = ["red", "blue", "green", "black"]
    task = task_of("B", question="Pick.\nA. red\nB. blue\nC. green\nD. black", info={"options": options})
    (transform,) = [one for one in TRANSFORMS if one.name.startswith("options")]
    made = named_verifier("choice")
    for seed in range(5):
        variant = transform.apply(task, seed)
        assert variant is not None
        payload = read_payload(variant.task)
        assert cast("list[str]", payload.info["options"])["ABCD".index(payload.answer)] == "blue"
        right = replace(submitted(variant.carry("The answer is B")), task=variant.task)
        assert verdict_of(made.verifier, right).outcome == 1.0


def weak_verifier() -> FunctionVerifier:
    """Pays, beside the answer, any text with `answer is` twice and a comma: the exploit that is planted."""
    rule = AnswerRule(form="free")

    def grade(submission: Submission) -> Grade:
        text = final_text(submission, rule).text
        hits = min(text.count("answer"), 2) + ("," in text) + min(text.count("correct"), 1)
        gold = read_payload(submission.task).answer
        return Grade(value=1.0 if text.strip() == gold or hits == 4 else hits / 8)

    return FunctionVerifier(name="weak", revision="1", grade=grade)


@pytest.mark.row("S391")
def test_a_search_for_disagreement_finds_the_exploit_that_was_planted_in_a_weak_verifier() -> None:
    strong = named_verifier("exact").verifier
    plan = RedTeam(
        attack=MutatedProbes(width=24),
        target=weak_verifier(),
        data=(task_of("1234", question="How many?"),),
        data_name="one question",
        judge=Disagrees(stronger=strong),
        metric=ShareFound(),
        rounds=80,
        seed=1,
    )
    report = asyncio.run(run_red_team(plan))
    assert report.found
    assert all(f.text.count("answer") >= 2 and "," in f.text and "correct" in f.text for f in report.found)
    none = asyncio.run(run_red_team(replace(plan, target=strong, rounds=3)))
    assert none.found == ()
    assert 0 < none.value < 0.1


class Plain:
    """Another attack: two fixed texts."""

    name = "plain"

    def propose(self, task, tried, chance: Random):
        return () if tried else ("1234", "no")


class Everything:
    """Another judge: whatever is accepted."""

    name = "everything"

    async def is_fooled(self, submission, said) -> bool:
        return said.outcome == 1.0


class Count:
    """Another metric."""

    name = "count"

    def value(self, tried) -> float:
        return float(sum(one.is_fooled for one in tried))


@pytest.mark.row("S394")
def test_attack_target_data_judge_and_metric_are_exchanged_one_by_one_and_a_run_lists_all_five() -> None:
    base = RedTeam(
        attack=MutatedProbes(),
        target=named_verifier("exact").verifier,
        data=(task_of("1234"),),
        data_name="one",
        judge=Disagrees(stronger=named_verifier("numeric").verifier),
        metric=ShareFound(),
        rounds=1,
    )
    others = {
        "attack": {"attack": Plain()},
        "target": {"target": weak_verifier()},
        "data": {"data": (task_of("1234"), task_of("5")), "data_name": "two"},
        "judge": {"judge": Everything()},
        "metric": {"metric": Count()},
    }
    first = asyncio.run(run_red_team(base))
    parts = ("attack", "target", "data", "judge", "metric")
    for part, change in others.items():
        report = asyncio.run(run_red_team(replace(base, **change)))
        assert [name for name in parts if getattr(report, name) != getattr(first, name)] == [part]
    both = asyncio.run(run_red_team(replace(base, attack=Plain(), judge=Everything(), metric=Count())))
    assert (both.value, both.num_tried, [f.text for f in both.found]) == (1.0, 2, ["1234"])


@pytest.mark.parametrize("threshold", ["nan", "inf"])
def test_a_threshold_that_is_no_finite_number_is_refused(tmp_path: Path, threshold: str, capsys) -> None:
    path = written(tmp_path, labeled("x", "x", True))
    assert run_command(["audit", "exact", "--cases", str(path), "--success-at", threshold]) == 2
    assert "give a finite number" in capsys.readouterr().err
