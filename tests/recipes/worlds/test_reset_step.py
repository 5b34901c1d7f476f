"""Games of other packages with reset and step, and the published recipes over them."""

import json

import pytest

from rollwright.cli.main import run_command
from rollwright.environments import DemonstratingEnvironment, EnvironmentSetupError
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.recipes.worlds import load_world
from tests.environments.test_reset_step import Household, Shop
from tests.recipes.worlds.episodes import commanded, score, seen, tasks_of

HERE = "tests.recipes.worlds.test_reset_step"
WAYS = {"alfworld": ("go to shelf", "take mug", "go to sink", "put mug"), "webshop": ("search[mug]", "click[buy]")}
DOCUMENTED = {"gigpo_alfworld": 50, "gigpo_webshop": 15}


def household(row, seed):
    assert row["room"] == "kitchen"
    return Household(seed)


def shop(row, seed):
    return Shop(seed)


def world_of(form, tmp_path, **arguments):
    """A world of games of this form; a package that is here stands for the one that is not."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"prompt": f"put mug {n} in the sink", "room": "kitchen"}) + "\n" for n in range(9))
    )
    entry = f"{HERE}:{'household' if form == 'alfworld' else 'shop'}"
    given = {"package": "numpy", "entry": entry, "rows": str(rows), "won_reward": 1.0 if form == "alfworld" else 0.5}
    return load_world("reset_step", {**given, **arguments})


def assert_plays(form, tmp_path):
    world = world_of(form, tmp_path)
    task = tasks_of(world, 4)[0]
    first = seen(world, task, commanded(*WAYS[form]), seed=4)
    assert first == seen(world, task, commanded(*WAYS[form]), seed=4), "an equal seed and equal actions, an equal game"
    assert first[0][0].startswith("put mug")
    assert len({state for _, state in first}) > 1
    assert score(world, task, commanded(*WAYS[form])).outcome == 10.0
    assert float(score(world, task, commanded(*WAYS[form][:1])).outcome) < world.success_threshold


@pytest.mark.row("S428")
def test_a_game_of_alfworlds_form_resets_steps_and_replays_from_its_seed(tmp_path):
    assert_plays("alfworld", tmp_path)


@pytest.mark.row("S429")
def test_a_game_of_webshops_form_resets_steps_and_replays_from_its_seed(tmp_path):
    assert_plays("webshop", tmp_path)


def washes(task, seed):
    return commanded(*WAYS["alfworld"])


def test_a_reference_that_was_brought_is_what_a_warm_start_shows(tmp_path):
    world = world_of("alfworld", tmp_path, reference=f"{HERE}:washes")
    task = tasks_of(world, 4)[0]
    assert isinstance(world.environment, DemonstratingEnvironment)
    assert [turn.text for turn in world.environment.demonstrate(task, 0)] == list(WAYS["alfworld"])


def test_an_invalid_action_costs_what_the_recipe_says(tmp_path):
    world = world_of("alfworld", tmp_path)
    found = score(world, tasks_of(world, 4)[0], commanded("fly", "fly", *WAYS["alfworld"]))
    assert found.outcome == pytest.approx(10.0 - 0.2)


def assert_documented(name) -> None:
    values = resolve(name).values()
    due = {
        "objective.kind": "gigpo", "rollout.group_size": 8, "rollout.batch_size": 128, "rollout.temperature": 1.0,
        "rollout.max_turns": DOCUMENTED[name], "environment.arguments.success": 10.0,
        "environment.arguments.invalid": -0.1, "learner.learning_rate": 1e-6, "objective.kl_coefficient": 0.01,
        "objective.credit.discount": 0.95, "objective.credit.step_weight": 1.0, "run.steps": 150,
        "evaluation.temperature": 0.4,
    }  # fmt: skip
    assert {key: values[key] for key in due} == due
    labels = resolve(name).recipe.run.labels
    told = {key for key in due if key != "run.steps" and not key.startswith("environment.")}
    assert all(labels[key].startswith("D: arXiv:2505.10978") for key in (*told, "environment.arguments"))


@pytest.mark.row("S428")
def test_the_published_recipe_on_alfworld_loads_with_its_documented_values():
    assert_documented("gigpo_alfworld")


@pytest.mark.row("S429")
def test_the_published_recipe_on_webshop_loads_with_its_documented_values():
    assert_documented("gigpo_webshop")


@pytest.mark.parametrize("package", ["alfworld", "webshop"])
def test_a_recipe_whose_package_is_not_here_says_so_and_leaves_no_folder(package, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(["train", f"gigpo_{package}"]) != 0
    assert package in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_package_of_another_version_and_an_entry_that_is_none_are_refused(tmp_path):
    with pytest.raises((EnvironmentSetupError, RecipeError), match="numpy"):
        world_of("alfworld", tmp_path, version="0.0.1")
    with pytest.raises(RecipeError, match="nowhere"):
        world_of("alfworld", tmp_path, entry="nowhere:make")
