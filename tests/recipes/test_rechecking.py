"""What only the recipe can tell: a change that every other row was made to agree with."""

import shutil
from pathlib import Path

import pytest

from rollwright.evidence import CheckReport, check_loaded, load_run
from rollwright.recipes.rechecking import check_deeply
from tests.evidence.forging import Row, forge

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"


def deeply(path: Path) -> tuple[CheckReport, CheckReport]:
    """What the rows say of each other, and what the recipe says besides."""
    with load_run(path) as run:
        rows = check_loaded(run)
        return rows, check_deeply(run, rows)


def twice_as_much(run: Path) -> None:
    """An advantage doubled, with the influence and the loss that hang on it, and the metrics of its update."""
    changed: dict[str, float] = {}

    def advantage(rows: list[Row]) -> bool:
        row = next((r for r in rows if r["influence"] > 0 and r["component"] == "policy_gradient"), None)
        if row is None:
            return False
        changed.update(update=row["update"], loss=row["loss"])
        row["advantage"] = {"n": row["advantage"]["n"], "v": [2 * v for v in row["advantage"]["v"]]}
        row["influence"] *= 2
        row["loss"] *= 2
        return True

    def loss(rows: list[Row]) -> bool:
        found = [r for r in rows if r["name"] == "policy/loss" and r["update"] == changed["update"]]
        for row in found:
            row["value"] += changed["loss"]
        return bool(found)

    forge(run, "receipts", advantage)
    forge(run, "metrics", loss)


def another_answer(run: Path) -> None:
    """A verdict with its part and its reward turned around, in an episode that no step was trained on."""

    def verdict(rows: list[Row]) -> bool:
        for row in rows:
            if row["verifier"] == "exact":
                row["evidence"] = "'7' against '8'"
                return True
        return False

    forge(run, "verdicts", verdict)


def another_part(run: Path) -> None:
    """What a token is said to be a part of."""

    def span(rows: list[Row]) -> bool:
        for row in rows:
            if row["origin"] == "policy" and row["spans"]:
                row["spans"][0]["kind"] = "reasoning"
                return True
        return False

    forge(run, "segments", span)


@pytest.mark.parametrize(
    ("change", "place", "text"),
    [
        (twice_as_much, "/0", "advantage is"),
        (another_answer, "verdicts ", "evidence is \"'7' against '8'\""),
        (another_part, "/0", "its span is reasoning"),
    ],
)
def test_a_change_that_the_rows_agree_with_is_found_by_the_recipe(tmp_path, change, place, text):
    shutil.copytree(RUNS / "before", tmp_path / "run")
    change(tmp_path / "run")
    rows, report = deeply(tmp_path / "run")
    assert rows.findings == ()
    [found] = [f for f in report.findings if text in f.text]
    assert place in found.place
    assert found.concern == "recipe"


def test_a_sound_run_comes_out_the_same_and_says_whose_weights_are_gone():
    rows, report = deeply(RUNS / "after")
    assert (rows.findings, report.findings) == ((), ())
    [said] = report.not_checked
    assert "no checkpoint of them stands" in said


def test_a_recipe_that_cannot_be_read_is_said_and_no_fault_of_the_run(tmp_path):
    shutil.copytree(RUNS / "after", tmp_path / "run")
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    (tmp_path / "run" / "recipe.toml").write_text(recipe.replace("clip_high", "clip_hgih"))
    _, report = deeply(tmp_path / "run")
    assert any("its recipe cannot be read here" in sentence for sentence in report.not_checked)


def test_the_fault_of_training_is_an_update_with_other_weights():
    _, report = deeply(RUNS / "fault")
    weighed = [f for f in report.findings if f.text.startswith("token_weight")]
    assert weighed
    assert all(f.expected.endswith("by the recipe") for f in weighed)
    assert all(f.place.count("/") == 2 for f in weighed)
