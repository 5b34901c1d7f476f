"""Every field that the survey demands of a trajectory and of a manifest has its place, or a reason why not."""

import typing
from dataclasses import fields, is_dataclass

import pytest

from rollwright.evidence import Manifest, connect
from rollwright.evidence.survey import SURVEY_FIELDS, TERMINAL_REASONS, NotApplicable, Place
from rollwright.record import TerminalReason
from tests.cases import evidence_schema
from tests.evidence.runs import written_run


def demanded() -> dict[str, list[str]]:
    schema = evidence_schema()
    lists = {
        "trajectory.minimum": schema["trajectory"]["minimum"],
        "trajectory.full": schema["trajectory"]["full"],
        "trajectory.additions": [one["field"] for one in schema["trajectory"]["additions"]],
    }
    lists |= {f"manifest.{section}": names for section, names in schema["manifest"].items()}
    return lists | {name: schema[name] for name in SURVEY_FIELDS if "." not in name}


def test_every_demanded_field_is_answered_and_no_other():
    assert {section: list(places) for section, places in SURVEY_FIELDS.items()} == demanded()


@pytest.fixture(scope="module")
def columns(tmp_path_factory) -> set[str]:
    with connect(written_run(tmp_path_factory.mktemp("survey") / "run")) as connection:
        found = connection.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
    return {f"{table}.{column}" for table, column in found}


def manifest_has(path: list[str], record: type = Manifest) -> bool:
    hints = typing.get_type_hints(record)
    if path[0] not in hints or path[0] not in {f.name for f in fields(record)}:
        return False
    hint = hints[path[0]]
    inner = next((h for h in (hint, *typing.get_args(hint)) if is_dataclass(h)), None)
    return len(path) == 1 or (isinstance(inner, type) and manifest_has(path[1:], inner))


def test_every_place_exists(columns):
    for section, places in SURVEY_FIELDS.items():
        for name, place in places.items():
            match place:
                case Place(where=where):
                    assert where, f"{section}.{name}"
                    for one in where:
                        is_there = manifest_has(one.split(".")[1:]) if one.startswith("manifest.") else one in columns
                        assert is_there, f"{section}.{name}: {one} does not exist"
                case NotApplicable(reason=reason):
                    assert len(reason) > 30, f"{section}.{name} needs a reason"


def test_every_trajectory_field_has_a_place():
    for section in ("trajectory.minimum", "trajectory.full", "trajectory.additions"):
        assert all(isinstance(place, Place) for place in SURVEY_FIELDS[section].values())


def test_terminal_reasons_are_kept_apart_as_the_survey_asks():
    asked = {one["reason"]: one["is_ordinary_outcome"] for one in evidence_schema()["trajectory"]["terminal_reasons"]}
    assert set(TERMINAL_REASONS) == set(asked)
    ours = [reason for reasons in TERMINAL_REASONS.values() for reason in reasons]
    assert sorted(ours) == sorted({str(r) for r in TerminalReason} - {"aborted", "superseded"})
    ordinary = {
        TerminalReason.MODEL_END,
        TerminalReason.ENVIRONMENT_SUCCESS,
        TerminalReason.ENVIRONMENT_FAILURE,
    }
    for reason, is_ordinary in asked.items():
        for name in TERMINAL_REASONS[reason]:
            assert (TerminalReason(name) in ordinary) == is_ordinary
            assert not (is_ordinary and TerminalReason(name).is_truncated)
