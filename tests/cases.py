"""Load the data that tests compare with: cases from bug reports, worked numbers of methods, the survey's schema.

`case("F13")` is a worked case from a public bug report; carry its id on the test with `@pytest.mark.case("F13")`.
`method_fixture("M04.a")` is a worked number of a method. Neither is ever pasted from the code under test.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "Case",
    "MethodFixture",
    "case",
    "case_ids",
    "evidence_schema",
    "method_fixture",
    "method_fixtures",
    "row_ids",
]

TESTS = Path(__file__).parent
METHODS = TESTS.parent / "src/rollwright/recipes/fixtures/methods.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A concrete input, and the right value or the right behavior."""

    id: str
    tier: int
    """1: silently wrong numbers, gradients or rewards; 2: crash, hang, lost data; 3: usability."""
    area: str
    title: str
    source: str
    """The public report."""
    input: dict[str, Any]
    expect: dict[str, Any]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFixture:
    """Inputs of a method and what a reference implementation gave."""

    id: str
    method: str
    input: dict[str, Any]
    expect: dict[str, Any]
    """Strings inf, -inf and nan are floats here; "undefined" is None."""
    tol: float
    note: str = ""


def case(case_id: str) -> Case:
    """The case with this id."""
    found = _cases().get(case_id)
    if found is None:
        raise KeyError(f"There is no case {case_id!r} in tests/data/cases/cases.jsonl.")
    return found


def case_ids() -> frozenset[str]:
    """All ids that a `case` mark may carry."""
    return frozenset(_cases())


def method_fixture(fixture_id: str) -> MethodFixture:
    """The worked number with this id, such as "M04.a"."""
    found = _method_fixtures().get(fixture_id)
    if found is None:
        raise KeyError(f"There is no fixture {fixture_id!r} in {METHODS.name}.")
    return found


def method_fixtures(method: str) -> list[MethodFixture]:
    """All worked numbers of a method such as "M04", in the order of the file; never empty."""
    found = [fixture for fixture in _method_fixtures().values() if fixture.method == method]
    if not found:
        raise KeyError(f"There is no fixture of method {method!r} in {METHODS.name}.")
    return found


@cache
def evidence_schema() -> dict[str, Any]:
    """The survey's fields of a trajectory and of a manifest."""
    return json.loads((TESTS / "data/evidence/schema.json").read_text(encoding="utf-8"))


@cache
def row_ids() -> frozenset[str]:
    """All ids that a `row` mark may carry."""
    return frozenset(json.loads(line)["id"] for line in _lines("data/systems/rows.jsonl"))


@cache
def _cases() -> dict[str, Case]:
    cases = [Case(**json.loads(line)) for line in _lines("data/cases/cases.jsonl")]
    return {one.id: one for one in cases}


@cache
def _method_fixtures() -> dict[str, MethodFixture]:
    raw = json.loads(METHODS.read_text(encoding="utf-8"))
    fixtures = [MethodFixture(**_plain(fields)) for fields in raw["fixtures"]]
    return {one.id: one for one in fixtures}


def _lines(name: str) -> list[str]:
    return (TESTS / name).read_text(encoding="utf-8").splitlines()


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Undo the spelling of what JSON cannot hold."""
    special: dict[str, float | None] = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "undefined": None}
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case str():
            return special.get(value, value)
        case _:
            return value
