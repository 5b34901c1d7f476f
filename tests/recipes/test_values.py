"""A value is what its key takes, and nothing is taken for something else."""

import pytest
from pydantic import Field, ValidationError

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.config.objective.surrogate import ClipConfig
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve, resolve_text
from rollwright.recipes.sentences import problems_of
from rollwright.recipes.settings import apply_setting, read_settings
from tests.cases import case

SMALL = """
[run]
name = "small"
[model]
kind = "fresh"
[tasks]
kind = "arithmetic"
[environment]
kind = "tool"
[objective]
kind = "grpo"
"""


class Settings(StrictConfig):
    """The keys of case F110."""

    lr: float = Field(default=1.0, gt=0)
    clip: float = 0.1
    steps: int = 1
    flag: bool = True
    name: str = ""
    seed: int = 0
    eps: float = 0.0


def read(*texts: str) -> Settings:
    tree = {}
    for setting in read_settings(texts):
        apply_setting(Settings, tree, setting)
    return Settings.model_validate(tree)


def refusal(*settings: str, text: str = SMALL, origin: str = "file small.toml") -> str:
    with pytest.raises(RecipeError) as caught:
        resolve_text(text, origin=origin, settings=settings)
    return str(caught.value)


@pytest.mark.case("F110")
def test_numbers_are_numbers_and_text_stays_text():
    right = case("F110").expect["right"]
    given = dict(line.split(": ") for line in case("F110").input["yaml"].splitlines())
    numbers = read(*(f"{key}={given[key]}" for key in ("lr", "clip", "steps", "name", "eps")))
    for key in ("lr", "clip", "steps", "eps"):
        assert getattr(numbers, key) == right[key]
        assert type(getattr(numbers, key)) is type(getattr(Settings(), key))
    assert numbers.name == "1_000"
    for key in ("seed", "flag"):  # 010 is ambiguous, and a bare no is neither true nor false: refused, never guessed
        with pytest.raises(ValidationError):
            read(f"{key}={given[key]}")
    assert read("name=no").name == "no"
    assert read("flag=false").flag is False


@pytest.mark.case("F110")
def test_a_wrong_type_names_key_value_type_file_and_line():
    text = SMALL + '\n[learner]\nweight_decay = 0.1\nlearning_rate = "1e-3"\n'
    line = text.splitlines().index('learning_rate = "1e-3"') + 1
    expected = 'learner.learning_rate takes a number above 0 and at most 10; "1e-3" was given '
    assert refusal(text=text) == f"{expected}(line {line} of file small.toml)."


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("learner.learning_rate=1e-6", 1e-6),
        ("learner.learning_rate=.5e-3", 0.0005),
        ("learner.weight_decay=1", 1.0),
        ("run.steps=1e3", 1000),
        ("run.steps=1_000", 1000),
        ("run.name=1_000", "1_000"),
        ("run.title=true", "true"),
        ("run.title=", ""),
        ('run.title="a b"', "a b"),
        ("run.title=2026-01-01", "2026-01-01"),
        ("environment.tools=[]", []),
    ],
)
def test_a_setting_is_read_in_the_sense_of_its_key(setting, value):
    key = setting.partition("=")[0]
    read = resolve_text(SMALL, origin="file", settings=[setting]).values()[key]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("setting", "allowed", "given"),
    [
        ("run.steps=ten", "a whole number of at least 1 and at most 10000000", '"ten"'),
        ("run.steps=1.5", "a whole number of at least 1 and at most 10000000", "1.5"),
        ("run.steps=true", "a whole number of at least 1 and at most 10000000", "true"),
        ("run.steps=0", "a whole number of at least 1 and at most 10000000", "0"),
        ("run.seed=010", "a whole number of at least 0 and below 9007199254740992", '"010"'),
        ("objective.credit.ddof=true", "a whole number of at least 0 and at most 1", "true"),
        ("learner.learning_rate=fast", "a number above 0 and at most 10", '"fast"'),
        ("learner.learning_rate=true", "a number above 0 and at most 10", "true"),
        ("learner.learning_rate=inf", "a number above 0 and at most 10", "Infinity"),
        ("learner.learning_rate=0", "a number above 0 and at most 10", "0"),
        ("environment.tools=calculator", "a list of text", '"calculator"'),
        ("verifier.parts=[]", "a list of sections with at least 1 in it", "[]"),
        ("learner=3", "a section", "3"),
        ("evaluation.temperature=2026-01-01", "a number of at least 0 and at most 100", '"2026-01-01"'),
    ],
)
def test_what_a_key_does_not_take_is_refused_with_what_it_takes(setting, allowed, given):
    key = setting.partition("=")[0]
    assert refusal(setting) == f"{key} takes {allowed}; {given} was given (--set)."


def test_a_misspelled_choice_gets_the_nearest_one():
    assert refusal("objective.denominator=tokenmean").endswith("; did you mean token_mean?")
    assert refusal("learner.dtype=float16").startswith(
        'learner.dtype takes "float32" or "bfloat16"; "float16" was given'
    )


def test_an_unknown_kind_names_the_kinds():
    text = refusal("objective=dpo")
    assert text.startswith("objective.kind is reinforce, rloo, grpo, dr_grpo, dapo, gspo, ")
    assert text.endswith(' or composed; "dpo" was given (--set); did you mean dapo?')


def test_missing_sections_and_keys_say_what_belongs_there():
    sentences = refusal(text="[run]\nsteps = 3\n")
    assert "run.name is missing; it takes text." in sentences
    assert "model is missing; it takes a section of kind fresh, local or packaged." in sentences
    assert refusal("model=local") == "model.path is missing; it takes text."


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("rollout.batch_size=60", "group sizes that divide it: 1, 2, 3, 4, 5, 6, 10"),
        ("runtime.stragglers=park", "is of runtime.oversample alone"),
        ("rollout.min_group_fraction=0.5 rollout.incomplete_groups=wait", "is of incomplete_groups 'train' alone"),
        ("rollout.at_cap=refuse", "are of dynamic_sampling alone"),
        ("rollout.dynamic_sampling=true rollout.group_size=1", "set rollout.group_size to 2 or more"),
        ("runtime.oversample=1 runtime.stragglers=park", "at max_lag 0 it would expire"),
        ("rollout.max_resumptions=2", "is of truncation 'resume' alone"),
        ("rollout.truncation=soft_penalty", "needs overlong_max_tokens and overlong_buffer_tokens"),
        ("rollout.top_p=0.9", "train at top_p=1"),
        ("objective.fixed_length_tokens=64", "is read by denominator 'fixed_length' only"),
        ("objective.reward_scaling=none", "whose scaling is 'group_std'"),
        ("objective=gigpo", "denominator has no default: GiGPO (arXiv:2505.10978) did not disclose it"),
        ("engine.dtype=bfloat16", "choose mode 'fast' for bfloat16"),
        ("engine.device=cuda", "set engine.mode=fast there"),
        ("learner.device=gpu", '"gpu" was given; allowed are cpu, cuda (the first GPU), and cuda:N (GPU N, from 0 on)'),
        ("model.num_heads=3", "is not a multiple of num_kv_heads"),
    ],
)
def test_settings_that_do_not_go_together_say_what_would(setting, says):
    assert says in refusal(*setting.split())


def test_a_whole_number_is_a_number_but_no_number_is_text():
    assert resolve_text(SMALL, origin="file", settings=["learner.adam_beta1=0"]).recipe.learner.adam_beta1 == 0.0
    assert "run.name takes text; 3 was given" in refusal(text=SMALL.replace('name = "small"', "name = 3"))


def test_a_kind_may_stand_for_its_section():
    written = SMALL.replace('[objective]\nkind = "grpo"\n', "")
    recipe = resolve_text(f'objective = "dapo"\n{written}', origin="file").recipe
    assert recipe.objective.kind == "dapo"
    assert isinstance(recipe.objective.surrogate, ClipConfig)
    assert recipe.objective.surrogate.clip_high == 0.28


def test_several_problems_are_told_at_once_and_each_once():
    sentences = refusal("learner.dtype=half", "run.steps=0", "lr=1").splitlines()
    assert sentences[0] == "3 things are wrong:"
    assert len(sentences) == 4


def test_text_that_is_not_toml_is_refused_with_its_place():
    assert refusal(text="[run]\nname = \n").startswith("file small.toml is not TOML: Invalid value (at line 2")


def test_a_recipe_cannot_be_changed():
    recipe = resolve("arithmetic-tool").recipe
    with pytest.raises(ValidationError):
        recipe.run.steps = 3


def test_values_of_a_table_are_described_as_such():
    tasks = 'tasks={kind="reasoning_gym", generators=[{name="chain_sum", parameters={x=[1], y=[true]}}]}'
    assert refusal(tasks).startswith("tasks.generators.0.parameters.y takes a whole number, a number, text")


def test_problems_are_told_of_any_class():
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"lr": "1e-6"})
    assert problems_of(caught.value, Settings, lambda key: "line 1 of x") == (
        'lr takes a number above 0; "1e-6" was given (line 1 of x).',
    )


def test_every_default_is_allowed():
    resolved = resolve_text(SMALL, origin="file")
    assert RecipeConfig.model_validate(resolved.recipe.model_dump(mode="json", exclude_none=True)) == resolved.recipe


@pytest.mark.parametrize(
    "setting",
    [
        "rollout.batch_size=1000000000000",
        "rollout.temperature=1e9",
        "run.steps=1e12",
        "tasks.num_train=1e300",
        "runtime.threads=100000",
        "model.hidden_size=10000000",
        "learner.learning_rate=1e6",
        "evaluation.temperature=inf",
    ],
)
def test_a_size_beyond_all_machines_is_refused_with_the_bound(setting):
    assert f"{setting.partition('=')[0]} takes a" in (said := refusal(setting))
    assert "at most" in said


@pytest.mark.parametrize(
    "setting",
    [
        "run.steps=" + "1" * 5000,
        "run.steps=0x" + "f" * 5000,
        "learner.learning_rate=" + "9" * 400,
        "run.steps=" + "[" * 3000,
        "run.steps=" + "{a=" * 3000,
        "a." * 3000 + "b=1",
        "run.labels." + "a." * 20 + "b=" + "{a=" * 200 + "1" + "}" * 200,
    ],
    ids=lambda setting: setting[:24],
)
def test_a_value_of_any_length_and_depth_is_refused_in_a_sentence(setting):
    assert len(refusal(setting)) < 500


@pytest.mark.parametrize(
    "text", ["a = " + "1" * 5000, "a = " + "[" * 3000, "[" + "a." * 3000 + "b]"], ids=lambda t: t[:6]
)
def test_a_file_of_any_length_and_depth_is_refused_in_a_sentence(text):
    assert "small.toml" in refusal(text=text)


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "dapo", "rloo"])
def test_a_group_of_one_is_refused_where_attempts_are_compared(kind):
    said = refusal(f"objective={kind}", "rollout.group_size=1")
    assert f"objective '{kind}' compares the attempts of a group, and rollout.group_size is 1" in said


def test_a_group_of_one_is_taken_where_nothing_is_compared():
    settings = ("objective=reinforce", "rollout.group_size=1")
    assert resolve_text(SMALL, origin="file small.toml", settings=settings).recipe.rollout.group_size == 1


def test_contexts_longer_than_a_fresh_model_has_positions_are_refused():
    said = refusal("model.max_context_tokens=128")
    assert "engine.max_context_tokens 512 is more than model.max_context_tokens 128" in said


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["engine.python=x"], 'unless engine.kind is "vllm"'),
        (["engine.kind=vllm", "engine.mode=fast"], 'unless engine.kind is "embedded"'),
        (["engine.kind=vllm", "engine.device=cuda:1"], "allowed are cpu and cuda"),
    ],
)
def test_what_the_engine_of_a_kind_does_not_read_is_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence):
        resolve("arithmetic-tool", settings)


def test_another_engine_keeps_the_slots_and_contexts_of_the_recipe_and_promises_no_bits():
    before, after = (
        resolve("arithmetic-tool").recipe.engine,
        resolve("arithmetic-tool", ["engine.kind=vllm"]).recipe.engine,
    )
    assert (after.num_slots, after.max_context_tokens) == (before.num_slots, before.max_context_tokens)
    assert before.is_deterministic and not after.is_deterministic
