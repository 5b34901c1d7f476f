"""A run that goes on under a version with other defaults says so, and keeps its own values."""

import dataclasses
import json
import shlex

import pytest

from rollwright.evidence import ConfigValue, Event, RunFolder
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, recipe_toml, resolve, resolve_text
from rollwright.recipes.resuming import resume_run
from rollwright.recipes.running import REPLAY, ROLLOUTS_ONLY
from rollwright.recipes.stored import ChangedDefault, changed_defaults, refuse_changed_defaults
from tests.end_to_end.small import Listener
from tests.evidence.runs import START, manifest


def stored(resolved: Resolved, path, **older: str):
    """A run folder as a version with other defaults wrote it: `older` maps the end of a line to what stood there."""
    text = recipe_toml(resolved.recipe)
    for now, then in older.items():
        assert f"\n{now} = " in text
        line = next(line for line in text.splitlines() if line.startswith(f"{now} = "))
        text = text.replace(f"\n{line}\n", f"\n{then}\n" if then else "\n")
    values = tuple(ConfigValue(key=key, value="", origin=origin) for key, origin in resolved.origins.items())
    RunFolder.create(path, dataclasses.replace(manifest(), configuration=values), text).close()
    return text


@pytest.mark.case("F140")
def test_changed_defaults_stop_a_resume_and_are_listed_while_the_run_keeps_its_own(tmp_path):
    resolved = resolve("arithmetic-tool", ["runtime.checkpoint_every=3"])
    text = stored(
        resolved,
        tmp_path / "run",
        keep_checkpoints="keep_checkpoints = 9",  # a default then, another one now
        easy="easy = 0.9",
        checkpoint_every="checkpoint_every = 4",  # a person's own choice, whatever the default is now
    )
    with pytest.raises(RecipeError) as caught:
        refuse_changed_defaults(tmp_path / "run")
    assert "runtime.keep_checkpoints was 9 and is 2 now" in str(caught.value)
    assert "tasks.easy was 0.9 and is 0.2 now" in str(caught.value)
    assert "checkpoint_every" not in str(caught.value)
    assert "--accept-changes goes on" in str(caught.value)
    kept = resolve_text(text, origin="run run").values()
    assert kept["tasks.easy"] == 0.9
    assert (kept["runtime.keep_checkpoints"], kept["runtime.checkpoint_every"]) == (9, 4)


@pytest.mark.case("F140")
def test_a_key_that_the_run_did_not_know_is_a_changed_default(tmp_path):
    resolved = resolve("arithmetic-tool")
    text = stored(resolved, tmp_path / "run", keep_checkpoints="")
    assert changed_defaults(text, resolved.origins) == (
        ChangedDefault(key="runtime.keep_checkpoints", stored=None, now=2),
    )


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["objective=dapo"],
        ["verifier.parts.format.weight=0.3"],
        ["stages=[{kind='rl'}]"],
        ['exporters=["tensorboard", {kind="mlflow", uri="file:here"}]'],
    ],
)
def test_the_same_version_has_nothing_to_accept(tmp_path, settings):
    resolved = resolve("arithmetic-tool", settings)
    text = stored(resolved, tmp_path / "run")
    assert changed_defaults(text, resolved.origins) == ()
    refuse_changed_defaults(tmp_path / "run")


def test_where_metrics_are_sent_may_be_changed_before_a_resume(tmp_path):
    resolved = resolve("arithmetic-tool", ['exporters=["wandb"]'])
    stored(resolved, tmp_path / "run", entity='entity = "mine"', project='project = "trials"')
    refuse_changed_defaults(tmp_path / "run")


def test_a_recipe_of_another_schema_is_refused_first(tmp_path):
    RunFolder.create(tmp_path / "run", manifest(), "schema_version = 99\n").close()
    with pytest.raises(RecipeError, match="schema_version 99"):
        refuse_changed_defaults(tmp_path / "run")


def test_a_stored_recipe_that_was_edited_by_hand_is_said_to_be_edited_and_no_default_is_blamed(tmp_path):
    resolved, run = resolve("arithmetic-tool"), tmp_path / "run"
    values = tuple(
        ConfigValue(key=key, value=json.dumps(resolved.values()[key]), origin=origin)
        for key, origin in resolved.origins.items()
    )
    text = recipe_toml(resolved.recipe)
    RunFolder.create(run, dataclasses.replace(manifest(), configuration=values), text).close()
    refuse_changed_defaults(run)
    (run / "recipe.toml").write_text(text.replace("keep_checkpoints = 2", "keep_checkpoints = 9"))
    with pytest.raises(RecipeError) as caught:
        refuse_changed_defaults(run)
    assert "runtime.keep_checkpoints was 2 and is 9 there now" in str(caught.value)
    assert "--new-segment" in str(caught.value) and "defaults" not in str(caught.value)


@pytest.mark.parametrize("kind", [ROLLOUTS_ONLY, REPLAY])
def test_a_command_to_copy_has_its_path_quoted(tmp_path, kind):
    run = tmp_path / "a run"
    with RunFolder.create(run, manifest(), recipe_toml(resolve("arithmetic-tool").recipe)) as folder:
        folder.record_event(Event(at=START, kind=kind, text="", fields={"path": str(run)}))
    with pytest.raises(RecipeError) as caught:
        resume_run(run, Listener())
    assert f" {shlex.quote(str(run))}`" in str(caught.value)
