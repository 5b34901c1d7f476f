"""Fixtures as a product: files that people write, the comparison, and what is said of what is wrong."""

import json
import math
from dataclasses import replace
from importlib import resources

import pytest

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.fixtures.adapter import Adapter, FixtureError, Input
from rollwright.recipes.fixtures.comparison import differences
from rollwright.recipes.fixtures.reading import Fixture, read_fixtures, shipped_fixtures
from rollwright.recipes.fixtures.running import run_fixtures

GOOD = {"id": "mine", "method": "M05", "input": {"R": [1, 0]}, "expect": {"A": [0.5, -0.5]}}


def halves(given):
    rewards = given.numbers("R")
    return {"A": [reward - sum(rewards) / len(rewards) for reward in rewards], "count": len(rewards)}


ADAPTERS = {
    "M05": Adapter(
        inputs=(Input(name="R", meaning="(G,) rewards"), Input(name="eps", meaning="a number", default="0")), run=halves
    )
}


def written(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


MINE = Fixture(id="mine", method="M05", given={"R": [1, 0]}, expect={"A": [0.5, -0.5]}, tolerance=1e-9)


def fixture(**changed) -> Fixture:
    return replace(MINE, **changed)


class TestFiles:
    def test_what_ships_is_data_of_the_package(self):
        content = json.loads((resources.files("rollwright") / "recipes/fixtures/methods.json").read_text("utf-8"))
        assert content["source"]
        assert content["computed_by"]
        assert len(content["fixtures"]) == len(shipped_fixtures()) == 191

    def test_a_list_and_a_list_under_fixtures_are_the_same(self, tmp_path):
        plain = read_fixtures(written(tmp_path, [GOOD]))
        wrapped = read_fixtures(written(tmp_path, {"source": "me", "fixtures": [GOOD]}))
        assert plain == wrapped == (fixture(),)

    def test_what_json_cannot_write_is_read_from_words(self, tmp_path):
        words = {"a": ["inf", "-inf", "nan"], "b": {"c": "undefined"}, "d": "infinity", "e": None}
        (one,) = read_fixtures(written(tmp_path, [GOOD | {"expect": words, "tol": 0.5, "note": "so"}]))
        assert str(one.expect["a"]) == "[inf, -inf, nan]"
        assert one.expect["b"] == {"c": None}
        assert one.expect["d"] == "infinity"
        assert one.expect["e"] is None
        assert (one.tolerance, one.note) == (0.5, "so")

    def test_numbers_too_large_for_a_float_are_infinite(self, tmp_path):
        (one,) = read_fixtures(written(tmp_path, [GOOD | {"expect": {"a": 10**400, "b": -(10**400), "c": 2**60}}]))
        assert one.expect == {"a": math.inf, "b": -math.inf, "c": float(2**60)}

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("[", "is not JSON: Expecting value in line 1, column 2"),
            ("[]", "has no fixtures"),
            ('{"source": "me"}', "has no fixtures"),
            ("3", "has no fixtures"),
            ("[" * 100_000, "lie too deep"),
            ([3], "fixture 0 is no object"),
            ([GOOD, {**GOOD, "id": 3}], "fixture 1 has the id 3; it takes a text"),
            ([{**GOOD, "method": None}], "fixture mine has the method None; it takes a text"),
            ([{k: v for k, v in GOOD.items() if k != "expect"}], "fixture mine has no expect"),
            ([{**GOOD, "inputs": {}}], "has a field 'inputs'; did you mean input?"),
            ([{**GOOD, "zzz": {}}], "has a field 'zzz'; it has id, method, input, expect"),
            ([{**GOOD, "input": [1]}], "has an input that is no object"),
            ([{**GOOD, "expect": {}}], "expects nothing"),
            ([{**GOOD, "tol": -1}], "has the tol -1; it takes a finite number of at least 0"),
            ([{**GOOD, "tol": "small"}], "has the tol 'small'"),
            ([{**GOOD, "tol": True}], "has the tol True"),
            ([GOOD, GOOD], "fixture 1 has the id 'mine' of one before it"),
        ],
    )
    def test_a_file_that_is_written_wrongly_is_refused_with_what_is_wrong(self, tmp_path, content, says):
        path = written(tmp_path, content)
        with pytest.raises(FixtureError, match="mine.json") as refused:
            read_fixtures(path)
        assert says in str(refused.value)

    def test_all_that_is_wrong_is_said_at_once(self, tmp_path):
        path = written(tmp_path, [{**GOOD, "tol": -1}, {**GOOD, "id": "other", "expect": {}}])
        with pytest.raises(RecipeError, match="2 things are wrong"):
            read_fixtures(path)

    def test_a_file_that_cannot_be_read_is_a_sentence(self, tmp_path):
        with pytest.raises(FixtureError, match="cannot be read: No such file"):
            read_fixtures(tmp_path / "absent.json")
        with pytest.raises(FixtureError, match="cannot be read: Is a directory"):
            read_fixtures(tmp_path)
        (tmp_path / "bytes").write_bytes(b"\xff\xfe")
        with pytest.raises(FixtureError, match="not text in UTF-8"):
            read_fixtures(tmp_path / "bytes")


class TestComparison:
    @pytest.mark.parametrize(
        ("wanted", "got"),
        [
            (1.0, 1.0 + 1e-10),
            (1e8, 1e8 + 0.01),
            (0.0, 1e-10),
            (math.nan, math.nan),
            (math.inf, math.inf),
            (True, 1),
            ([1, 0], [True, False]),
            ([1, 2], (1.0, 2.0)),
            ({"0": 1}, {0: 1}),
            (None, None),
            ("a", "a"),
            ([[1], []], [[1], []]),
        ],
    )
    def test_what_agrees(self, wanted, got):
        assert differences({"A": wanted}, {"A": got}, 1e-9) == []

    @pytest.mark.parametrize(
        ("wanted", "got", "place", "says"),
        [
            (1.0, 1.1, "A", "expected 1, got 1.1 (differs by 0.1, tol 1e-09)"),
            ([1, [2, 3]], [1, [2, 4]], "A[1][1]", "expected 3, got 4"),
            ({"x": 1}, {"x": 2}, "A.x", "expected 1, got 2"),
            ({"x": 1}, {"y": 1}, "A", "expected the names ['x'], got ['y']"),
            ([1, 2], [1], "A", "expected 2 values, got 1: [1]"),
            ([1], 1, "A", "expected [1], got 1"),
            ({"x": 1}, [1], "A", "expected {'x': 1}, got [1]"),
            (math.inf, 1e308, "A", "expected inf, got 1e+308"),
            (math.inf, -math.inf, "A", "expected inf, got -inf"),
            (math.nan, 0.0, "A", "expected nan, got 0"),
            (0.0, math.nan, "A", "expected 0, got nan"),
            (None, 0.0, "A", "expected undefined, got 0"),
            (0.0, None, "A", "expected 0, got undefined"),
            (True, False, "A", "expected true, got false"),
            ("a", "b", "A", "expected a, got b"),
            ("a", 1, "A", "expected a, got 1"),
        ],
    )
    def test_what_differs_is_named_with_its_place(self, wanted, got, place, says):
        (one,) = differences({"A": wanted}, {"A": got}, 1e-9)
        assert one.place == place
        assert one.sentence.startswith(says)

    def test_every_place_is_named(self):
        found = differences({"A": [1, 2, 3], "B": 1}, {"A": [1, 0, 0], "B": 0}, 1e-9)
        assert [one.place for one in found] == ["A[1]", "A[2]", "B"]

    def test_an_output_that_is_not_given_differs(self):
        (one,) = differences({"centered": 1}, {"centred": 1, "A": 1}, 1e-9)
        assert one.sentence == "the library gives no output of this name; did you mean centred?"

    def test_outputs_that_are_not_expected_are_not_compared(self):
        assert differences({"A": 1}, {"A": 1, "B": math.nan}, 1e-9) == []


class TestRunning:
    def test_a_fixture_passes_or_fails_with_its_differences(self):
        passed, failed = run_fixtures([fixture(), fixture(id="b", expect={"A": [0.5, 0.5], "count": 3})], ADAPTERS)
        assert passed.has_passed
        assert not failed.has_passed
        assert failed.sentence(1) == (
            "b: A[1] expected 0.5, got -0.5 (differs by 1, tol 1e-09); and 1 more value differs"
        )

    @pytest.mark.parametrize(
        ("changed", "says"),
        [
            ({"method": "m05"}, "names the method 'm05', which does not exist; did you mean M05?"),
            ({"method": "grpo"}, "names the method 'grpo', which does not exist."),
            ({"given": {"R": [1], "epsilon": 0}}, "an input 'epsilon', which it does not have; did you mean eps?"),
            ({"given": {"R": [1], "r": [1]}}, "an input 'r', which it does not have; did you mean R?"),
            ({"given": {"R": [1], "zz": [1]}}, "an input 'zz', which it does not have; its inputs are R, eps."),
            ({"given": {}}, "leaves out what M05 requires: 'R' ((G,) rewards)."),
            ({"given": {"R": 3}}, "input 'R' needs a list of numbers; the fixture gives 3."),
        ],
    )
    def test_what_is_asked_wrongly_is_refused_with_the_right_name(self, changed, says):
        with pytest.raises(FixtureError) as refused:
            run_fixtures([fixture(**changed)], ADAPTERS)
        assert says in str(refused.value)
        assert "fixture mine" in str(refused.value)

    def test_nothing_runs_where_one_is_asked_wrongly(self):
        ran = []
        adapters = {"M05": Adapter(inputs=ADAPTERS["M05"].inputs, run=lambda given: ran.append(given) or {})}
        with pytest.raises(FixtureError):
            run_fixtures([fixture(), fixture(given={})], adapters)
        assert ran == []

    def test_of_many_mistakes_the_first_are_said(self):
        with pytest.raises(FixtureError, match="and 5 more") as refused:
            run_fixtures([fixture(id=f"f{place}", method="X") for place in range(25)], ADAPTERS)
        assert len(str(refused.value).splitlines()) == 22

    def test_a_refusal_of_the_library_is_a_failure_with_its_sentence(self):
        def refuse(given):
            raise ValueError("alpha has no default:\n nobody disclosed it.")

        def broken(given):
            return {"A": [][0]}

        for run, says in (
            (refuse, "the library refuses it: alpha has no"),
            (broken, "its inputs do not fit one another, or this is a bug: IndexError"),
        ):
            adapters = {"M05": Adapter(inputs=ADAPTERS["M05"].inputs, run=run)}
            failed, passed = run_fixtures([fixture(), fixture(method="M06")], {**adapters, "M06": ADAPTERS["M05"]})
            assert passed.has_passed
            assert says in failed.sentence(3)
            assert len(failed.sentence(3).splitlines()) == 1
