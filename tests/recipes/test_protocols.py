"""Protocols as files: what they give a recipe, what is refused, and that what was there before keeps its digest."""

import dataclasses

import pytest

from rollwright.recipes.build.protocols import build_protocols
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.evaluation import ProtocolConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.protocols import protocol_names, read_protocol
from rollwright.recipes.resolve import preset_text, recipe_toml, resolve, resolve_text

SMALL = ("tasks.num_train=40", "tasks.num_held_out=20", "evaluation.tasks=10")


def built(*settings, rendering="rendering-1"):
    """The protocols of the default recipe on few tasks."""
    recipe = resolve("arithmetic-tool", [*SMALL, *settings]).recipe
    world = build_world(recipe)
    try:
        return build_protocols(recipe, world, rendering)
    finally:
        world.close()


@pytest.fixture
def written(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("name", protocol_names())
def test_every_protocol_that_ships_resolves_and_builds(name):
    (protocol,) = built(f"evaluation.protocol={name}", "evaluation.tasks=10")
    assert protocol.name == name and len(protocol.tasks) == 10


def test_a_file_gives_the_same_protocol_as_the_same_values_in_the_recipe(written):
    file = written("tasks = 10\nsamples = 3\ntemperature = 0.5\nseed = 4\n")
    (inline,) = built("evaluation.samples=3", "evaluation.temperature=0.5", "evaluation.seed=4")
    (named,) = built(f"evaluation.protocol={file}")
    assert (named.name, inline.name) == ("mine", "held-out")
    assert named.sha256 == inline.sha256
    assert dataclasses.replace(named, name=inline.name) == inline


def test_values_say_which_file_they_come_from(written):
    resolved = resolve("arithmetic-tool", [f"evaluation.protocol={written('samples = 3')}", "evaluation.tasks=10"])
    assert resolved.origins["evaluation.samples"] == "protocol file mine.toml"
    assert resolved.origins["evaluation.tasks"] == "command line"
    assert resolved.origins["evaluation.temperature"] == "default"
    assert resolved.recipe.evaluation.every == 20


def test_several_protocols_are_measured_at_the_same_steps_under_digests_of_their_own(written):
    one, other = written("tasks = 5\nsamples = 1", "one.toml"), written("tasks = 6\nsamples = 2", "other.toml")
    settings = [s for s in SMALL if not s.startswith("evaluation")]
    recipe = resolve("arithmetic-tool", [*settings, f'evaluation.protocol=["{one}", "{other}"]']).recipe
    world = build_world(recipe)
    try:
        found = build_protocols(recipe, world, "r")
    finally:
        world.close()
    assert [(p.name, len(p.tasks), p.samples) for p in found] == [("one", 5, 1), ("other", 6, 2)]
    assert found[0].sha256 != found[1].sha256


def test_a_stored_recipe_needs_the_file_no_more(written, tmp_path):
    resolved = resolve("arithmetic-tool", [f"evaluation.protocol={written('samples = 3')}"])
    (tmp_path / "mine.toml").unlink()
    again = resolve_text(recipe_toml(resolved.recipe), origin="run made")
    assert again.recipe == resolved.recipe
    assert again.recipe.evaluation.samples == 3


def test_values_beside_a_named_protocol_are_refused_rather_than_ignored(tmp_path, written):
    file = written("samples = 3")
    text = preset_text("arithmetic-tool").replace("[evaluation]\n", f'[evaluation]\nprotocol = "{file}"\n')
    with pytest.raises(RecipeError, match="stands beside evaluation.protocol"):
        resolve_text(text, origin="file made.toml")


WRONG = {
    "an unknown key": ("sample = 3", "unknown key sample (line 1 of protocol file mine.toml); did you mean samples?"),
    "a number out of bounds": ("tasks = 0", "tasks takes a whole number"),
    "more attempts than samples": ("samples = 2\nattempts = [1, 4]", "none above the samples"),
    "gold that pays": ('gold = [{ kind = "world" }]', "gold is a verifier of its own"),
    "no TOML": ("samples =", "protocol file mine.toml is not TOML"),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_file_is_said_of_the_file(written, text, sentence):
    with pytest.raises(RecipeError) as caught:
        resolve("arithmetic-tool", [f"evaluation.protocol={written(text)}"])
    assert sentence in str(caught.value)


def test_a_name_that_ships_nowhere_is_refused_with_the_nearest():
    with pytest.raises(RecipeError, match="Did you mean greedy?"):
        read_protocol("gredy")


def test_two_protocols_of_one_name_are_refused(written):
    one = written('name = "same"', "one.toml")
    other = written('name = "same"', "other.toml")
    with pytest.raises(RecipeError, match="two protocols are named 'same'"):
        resolve("arithmetic-tool", [f'evaluation.protocol=["{one}", "{other}"]'])


def test_a_pinned_protocol_is_refused_where_prompt_verifier_or_environment_are_others(written):
    (found,) = built("evaluation.samples=3")
    pins = (
        f'rendering_revision = "{found.rendering_revision}"\nreward_rule = "{found.reward_rule}"\n'
        f'environment_revision = "{found.environment_revision}"\nsha256 = "{found.sha256}"\n'
    )
    file = written(f"tasks = 10\nsamples = 3\n{pins}")
    assert built(f"evaluation.protocol={file}")[0].sha256 == found.sha256
    with pytest.raises(RecipeError, match="rendering_revision is rendering-2 and not rendering-1"):
        built(f"evaluation.protocol={file}", rendering="rendering-2")
    with pytest.raises(RecipeError, match="reward_rule is"):
        built(f"evaluation.protocol={file}", "verifier.parts=[{kind='numeric'}]")


def test_a_gold_verifier_is_another_than_those_that_pay_and_part_of_the_digest(written):
    file = written('tasks = 10\ngold = [{ kind = "numeric" }]')
    (gold,) = built(f"evaluation.protocol={file}")
    (plain,) = built()
    assert (gold.gold_verifier, plain.gold_verifier) == ("numeric", "")
    assert gold.sha256 != plain.sha256
    with pytest.raises(RecipeError, match="names numeric as gold, which is among the verifiers"):
        built(f"evaluation.protocol={file}", "verifier.parts=[{kind='numeric'}]")


def test_the_training_split_holds_trained_tasks_and_is_another_protocol(written):
    file = written('tasks = 10\nsplit = "train"')
    (train,) = built(f"evaluation.protocol={file}")
    (held_out,) = built()
    assert {task.split for task in train.tasks} == {"train"} and {t.split for t in held_out.tasks} == {"held_out"}
    assert train.sha256 != held_out.sha256


def test_budgets_of_a_protocol_stand_where_it_names_them_and_those_of_training_elsewhere(written):
    file = written("tasks = 10\nmax_turns = 7")
    (found,) = built(f"evaluation.protocol={file}")
    assert (found.max_turns, found.max_turn_tokens, found.max_episode_tokens) == (7, 40, 96)


def test_every_key_of_a_protocol_but_name_level_and_pins_is_in_its_digest():
    kept = {"name", "level", "sha256", "environment_revision", "reward_rule", "rendering_revision"}
    changes = {
        "split": '"train"',
        "tasks": "9",
        "samples": "3",
        "temperature": "0.5",
        "top_p": "0.9",
        "top_k": "5",
        "min_p": "0.1",
        "max_turns": "9",
        "max_turn_tokens": "9",
        "max_episode_tokens": "9",
        "success_threshold": "0.5",
        "attempts": "[1]",
        "cover_rates": "[0.25]",
        "gold": '[{kind="numeric"}]',
        "seed": "1",
    }
    assert set(changes) | kept == set(ProtocolConfig.model_fields)
    digests = {key: built(f"evaluation.{key}={value}")[0].sha256 for key, value in changes.items()}
    assert len(set(digests.values()) | {built()[0].sha256}) == len(changes) + 1
    assert built("evaluation.level=0.9")[0].sha256 == built("evaluation.name=other")[0].sha256 == built()[0].sha256
