"""What the command line sets goes where it says, and every value knows where it comes from."""

import pytest

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import flatten
from rollwright.recipes.resolve import SCHEMA_VERSION, Resolved, preset_names, recipe_toml, resolve, resolve_text


def small(*settings: str) -> Resolved:
    return resolve("arithmetic-tool", settings)


def test_origins_say_default_preset_or_command_line():
    origins = small("learner.learning_rate=5e-4").origins
    assert origins["learner.learning_rate"] == "command line"
    assert origins["learner.adam_beta1"] == "default"
    assert origins["rollout.batch_size"] == "preset arithmetic-tool"
    assert origins["objective.kind"] == "preset arithmetic-tool"
    assert set(origins) == set(small().values())


def test_a_file_is_an_origin_by_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(recipe_toml(small().recipe), encoding="utf-8")
    assert resolve(str(path)).origins["run.name"] == "file mine.toml"


def test_a_kind_on_the_command_line_replaces_its_section():
    for setting in ("objective=dapo", "objective.kind=dapo"):
        resolved = resolve_text(
            recipe_toml(small("objective.surrogate.clip_high=0.5").recipe), origin="file a.toml", settings=[setting]
        )
        assert resolved.values()["objective.kind"] == "dapo"
        assert resolved.values()["objective.surrogate.clip_high"] == 0.28
        assert resolved.origins["objective.kind"] == "command line"
        assert resolved.origins["objective.surrogate.clip_high"] == "default"


@pytest.mark.parametrize(
    "settings",
    [("objective=dapo", "objective.surrogate.clip_high=0.4"), ("objective.surrogate.clip_high=0.4", "objective=dapo")],
)
def test_a_section_is_set_before_its_keys_in_whatever_order_they_are_given(settings):
    resolved = small(*settings)
    assert (resolved.values()["objective.kind"], resolved.values()["objective.surrogate.clip_high"]) == ("dapo", 0.4)
    assert resolved.origins["objective.surrogate.clip_high"] == "command line"


@pytest.mark.parametrize(
    "settings",
    [
        ("objective.credit=pass_at_k", "objective.credit.k=4"),
        ("objective.credit.k=4", "objective.credit=pass_at_k"),
        ('objective={kind="grpo", credit="pass_at_k"}', "objective.credit.k=4"),
    ],
)
def test_a_section_inside_another_is_set_before_its_keys(settings):
    resolved = small(*settings)
    assert (resolved.values()["objective.credit.kind"], resolved.values()["objective.credit.k"]) == ("pass_at_k", 4)
    assert resolved.origins["objective.credit.kind"] == "command line"


def test_the_same_kind_again_keeps_its_section():
    assert small("objective.kind=dr_grpo").origins["objective.denominator"] == "preset arithmetic-tool"


def test_the_last_of_two_settings_of_a_key_counts():
    assert small("run.steps=300", "run.steps=400").recipe.run.steps == 400


@pytest.mark.parametrize("place", ["warm_start", "0"])
def test_an_item_of_a_list_is_addressed_by_name_or_place(place):
    resolved = small(f"stages.{place}.steps=1000")
    assert resolved.values()["stages.0.steps"] == 1000
    assert resolved.origins["stages.0.steps"] == "command line"
    assert resolved.origins["stages.0.name"] == "preset arithmetic-tool"


def test_an_item_of_a_list_by_default_can_be_set():
    text = recipe_toml(small().recipe)
    start = text.index("[verifier]")
    bare = text[:start] + text[text.index("[engine]") :]
    resolved = resolve_text(bare, origin="file", settings=["verifier.parts.exact.weight=0.5"])
    assert resolved.values()["verifier.parts.0.weight"] == 0.5
    assert resolved.origins["verifier.parts.0.kind"] == "default"


def test_an_item_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(RecipeError, match=r"no item 'warm'; choose warm_start, rl, or a place from 0 to 1"):
        small("stages.warm.steps=10")


def test_a_stage_named_without_its_list_is_answered_with_the_whole_key():
    with pytest.raises(RecipeError, match=r"warm_start is one of stages: did you mean stages\.warm_start\.steps\?"):
        resolve("arithmetic-tool", ["warm_start.steps=5"])


def test_a_value_has_no_keys_below_it():
    with pytest.raises(RecipeError, match=r"learner\.learning_rate is a value, not a section"):
        small("learner.learning_rate.x=1")


@pytest.mark.parametrize("setting", ["x", "=3", "a b=3", "run..steps=3", "run.=3", ""])
def test_what_is_no_setting_is_refused(setting):
    with pytest.raises(RecipeError, match=r"--set takes key=value"):
        small(setting)


def test_a_value_cannot_smuggle_in_another_key():
    assert small("run.title=a\nsteps = 3").recipe.run.title == "a\nsteps = 3"


def test_a_section_may_be_set_as_a_table():
    resolved = small('verifier={parts=[{kind="numeric", tolerance=0.1}], success_threshold=0.5}')
    assert resolved.recipe.verifier.parts[0].kind == "numeric"
    assert resolved.origins["verifier.success_threshold"] == "command line"
    assert resolved.origins["verifier.answer_form"] == "default"


def test_a_quoted_key_is_one_key():
    resolved = small('run.labels."learner.learning_rate"=C: run-1')
    assert resolved.recipe.run.labels["learner.learning_rate"] == "C: run-1"


def test_a_recipe_that_is_not_there_names_those_that_are(tmp_path):
    with pytest.raises(RecipeError, match=r"no recipe 'arithmetic-tol'; there are .*Did you mean arithmetic-tool\?"):
        resolve("arithmetic-tol")
    with pytest.raises(RecipeError, match=r"no file .*absent\.toml; give a \.toml file that exists"):
        resolve(str(tmp_path / "absent.toml"))
    (tmp_path / "latin.toml").write_bytes(b"[run]\nname = 'caf\xe9'\n")
    with pytest.raises(RecipeError, match=r"is not text in UTF-8"):
        resolve(str(tmp_path / "latin.toml"))


@pytest.mark.case("F111")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ["objective.kl_estimator=k1"],
            "nothing reads objective.kl_estimator unless objective.kl_coefficient is above 0",
        ),
        (["verifier.answer_form=boxed", "verifier.answer_marker=so:"], "nothing reads verifier.answer_marker"),
        (["evaluation.temperature=0", "evaluation.top_p=0.9"], "nothing reads evaluation.top_p"),
        (
            ['stages=[{kind="supervised"}]', "run.steps=333"],
            "nothing reads run.steps unless there is a stage of kind rl",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_refused(settings, says):
    with pytest.raises(RecipeError) as caught:
        small(*settings)
    assert says in str(caught.value)
    assert str(caught.value).endswith("(--set).")


def test_what_the_command_line_switches_off_goes_back_to_its_default():
    text = recipe_toml(small("objective.kl_coefficient=0.1", "objective.kl_estimator=k1").recipe)
    text = text.replace(f"schema_version = {SCHEMA_VERSION}\n", "")
    assert resolve_text(text, origin="file").recipe.objective.kl_estimator == "k1"
    resolved = resolve_text(text, origin="file", settings=["objective.kl_coefficient=0"])
    assert (resolved.recipe.objective.kl_estimator, resolved.origins["objective.kl_estimator"]) == ("k3", "default")


def test_a_key_that_nothing_reads_may_say_its_default():
    assert small("objective.kl_estimator=k3").recipe.objective.kl_estimator == "k3"


@pytest.mark.case("F140")
def test_a_stored_recipe_carries_its_schema_and_another_one_is_refused():
    text = recipe_toml(small().recipe)
    assert text.startswith(f"schema_version = {SCHEMA_VERSION}\n")
    other = text.replace(f"schema_version = {SCHEMA_VERSION}", "schema_version = 0")
    with pytest.raises(RecipeError, match=r"run old is written in schema_version 0 .*Use the version that wrote it"):
        resolve_text(other, origin="run old")


def test_a_stored_recipe_writes_out_every_value():
    resolved = small("objective=rloo")
    again = resolve_text(recipe_toml(resolved.recipe), origin="run mine")
    assert set(again.origins.values()) == {"run mine"}
    assert again.values() == resolved.values()


def test_labels_say_how_well_a_written_value_is_known():
    resolved = small("learner.learning_rate=1e-4")
    assert resolved.label_of("objective.denominator") == "D"
    assert resolved.label_of("rollout.batch_size") == resolved.recipe.run.evidence_label
    assert resolved.label_of("learner.learning_rate") is None
    assert resolved.label_of("learner.adam_beta1") is None


def test_a_label_of_a_section_holds_for_its_keys_until_a_nearer_one():
    resolved = resolve("smollm2-arithmetic", ["run.labels.learner=C: run-1", 'run.labels."learner.dtype"=U'])
    assert resolved.label_of("learner.micro_batch_tokens") == "C"
    assert resolved.label_of("rollout.truncation") == "I"
    again = resolve_text(recipe_toml(resolved.recipe), origin="run mine")
    assert again.label_of("learner.dtype") == "U"


def test_a_label_needs_a_key_that_exists_and_a_letter_that_means_something():
    with pytest.raises(
        RecipeError, match=r"run\.labels names objective\.denominatr, .*did you mean objective\.denominator"
    ):
        small("run.labels.objective.denominatr=D")
    with pytest.raises(RecipeError, match=r"begins with D \(disclosed\)"):
        small("run.labels.objective.denominator=sure")


def test_another_recipe_keeps_the_origins_of_what_it_does_not_change():
    resolved = small()
    run = resolved.recipe.run.model_copy(update={"steps": 3})
    changed = resolved.with_recipe(resolved.recipe.model_copy(update={"run": run}), origin="run source")
    assert changed.origins == {**resolved.origins, "run.steps": "run source"}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_writes_out_what_publications_contradict_each_other_on(name):
    resolved = resolve(name)
    for key in ("objective.denominator", "objective.reward_scaling", "rollout.truncation", "runtime.max_lag"):
        assert resolved.origins[key] == f"preset {name}", key
        assert key in resolved.recipe.run.labels, key
    assert resolved.recipe.run.name == name


def test_stages_need_names_of_their_own():
    with pytest.raises(RecipeError, match=r"each needs a name of its own"):
        small('stages=[{kind="supervised", name="rl"}, {kind="rl"}]')
    with pytest.raises(RecipeError, match=r"one stage of kind 'rl'"):
        small('stages=[{kind="rl", name="a"}, {kind="rl", name="b"}]')


def test_flat_keys_are_those_of_the_configuration():
    dumped = small().recipe.model_dump(mode="json", exclude_none=True)
    assert dict(flatten(dumped)) == small().values()
    assert set(dumped) == set(RecipeConfig.model_fields)
