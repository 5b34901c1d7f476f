"""`check` finds what was planted in a sound run, by one who mends no digest or all of them, and names the place."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from tests.evidence.corruptions import CORRUPTIONS, Copy, Corruption

DATA = Path(__file__).parents[1] / "data"
SOUND = DATA / "runs/after"
SURVIVORS: dict[str, str] = tomllib.loads((DATA / "forgeries/survivors.toml").read_text())

QUICK = {
    "flipped_byte",
    "swapped_shards",
    "torn_commit",
    "changed_tokenizer",
    "task_with_another_answer",
    "token_of_an_answer",
    "token_of_a_tool",
    "reward_with_component_and_verdict",
    "tool_result_in_table_and_tokens",
    "trained_slot_called_filtered",
    "receipt_for_a_tools_tokens",
    "receipt_under_a_second_update",
    "receipt_dropped",
    "behavior_a_hundredth_higher",
    "advantage_with_the_other_sign",
    "weight_moved_within_a_segment",
    "half_the_denominator",
    "failed_evaluation_episode_dropped",
}
"""Run by default; the others are slow together."""


def _as_case(corruption: Corruption) -> object:
    marks = [] if corruption.name in QUICK else [pytest.mark.slow]
    if corruption.name in SURVIVORS:
        marks.append(pytest.mark.xfail(strict=True, reason=f"not found yet: {SURVIVORS[corruption.name]}"))
    return pytest.param(corruption, id=corruption.name, marks=marks)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Of a sound run."""
    return Copy(Path(shutil.copytree(SOUND, tmp_path / "run")))


def test_names_of_survivors_and_of_the_quick_ones_are_corruptions() -> None:
    names = [corruption.name for corruption in CORRUPTIONS]

    assert len(set(names)) == len(names)
    assert set(SURVIVORS) | QUICK <= set(names)


def test_run_written_anew_without_a_change_is_sound(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted(copy.root.glob("*/*.parquet")):
        copy.write(path.parent.name, int(path.stem), copy.rows(path.parent.name, int(path.stem)))
    copy.mend()

    code = run_command(["check", str(copy.root), "--json"])

    assert _findings(capsys.readouterr().out) == []
    assert code == 0


@pytest.mark.parametrize("corruption", [_as_case(corruption) for corruption in CORRUPTIONS])
def test_check_names_the_place_of(corruption: Corruption, copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    places = corruption.plant(copy)

    code = run_command(["check", str(copy.root), "--json"])

    findings = _findings(capsys.readouterr().out)
    assert code == 1
    assert [place for place in places if not any(re.search(place, finding) for finding in findings)] == [], findings


def _findings(output: str) -> list[str]:
    """Place and text of each finding, or the sentence that refuses the folder."""
    lines = [json.loads(line) for line in output.splitlines()]
    found = [f"{line['place']} {line['text']}" for line in lines if line.get("event") == "finding"]
    return found + [line["error"] for line in lines if "error" in line]
