"""Whatever can be configured survives being stored: the TOML of a recipe resolves to the same recipe."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.config.evaluation import EvaluationConfig, ProtocolConfig
from rollwright.recipes.config.learning import (
    EvidenceConfig,
    LearnerConfig,
    RlStageConfig,
    RunConfig,
    RuntimeConfig,
    SupervisedStageConfig,
)
from rollwright.recipes.config.model import FreshModelConfig
from rollwright.recipes.config.sampling import RolloutConfig
from rollwright.recipes.config.shapes import choices_of, is_list, item_of, sections_of
from rollwright.recipes.resolve import recipe_toml, resolve_text

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
PLAIN: Mapping[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: TEXT,
    bool: st.booleans(),
}


def values_of(annotation: object, field: FieldInfo | None = None) -> st.SearchStrategy[Any]:
    if is_list(annotation):
        return st.lists(values_of(item_of(annotation)), min_size=1, max_size=3)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is list:
        return st.lists(values_of(get_args(annotation)[0]), max_size=3)
    if get_origin(annotation) is dict:
        return st.dictionaries(TEXT.filter(bool), values_of(get_args(annotation)[1]), max_size=2)
    choices = choices_of(annotation)
    if len(choices) > 1:
        return st.one_of([values_of(choice) for choice in choices])
    if sections_of(annotation):
        return section(sections_of(annotation)[0])
    choice = next(iter(choices))
    if choice != annotation and get_origin(choice) is Literal:
        return values_of(choice)
    return PLAIN[choice] if field is None else bounded(choice, field)


def bounded(annotation: object, field: FieldInfo) -> st.SearchStrategy[Any]:
    """Plain values within the bounds of a field."""
    low, high, low_open, high_open = -(2**40), 2**40, False, False
    for limit in field.metadata:
        low, low_open = limits(limit, Ge, Gt, (low, low_open))
        high, high_open = limits(limit, Le, Lt, (high, high_open))
    if annotation is int:
        return st.integers(low + low_open, high - high_open)
    if annotation is float:
        return st.floats(low, high, exclude_min=low_open, exclude_max=high_open)
    if annotation is str and field.metadata:
        return texts(field)
    return PLAIN[annotation]


def texts(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Of the least length, or of the pattern, that a field asks for."""
    least = max((limit.min_length for limit in field.metadata if isinstance(limit, MinLen)), default=0)
    patterns = [limit.pattern for limit in field.metadata if getattr(limit, "pattern", None)]
    if patterns:
        return st.from_regex(patterns[0], fullmatch=True, alphabet=st.characters(codec="ascii"))
    return st.text(st.characters(codec="utf-8"), min_size=least, max_size=12)


def limits(limit: Any, closed: type, opened: type, before: tuple[Any, bool]) -> tuple[Any, bool]:
    if isinstance(limit, closed | opened):
        return dataclasses.astuple(limit)[0], isinstance(limit, opened)
    return before


def section(config: type[BaseModel], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of a section's keys, its kind and what it requires always."""
    required, optional = {}, {}
    for name, field in config.model_fields.items():
        values = fixed.get(name, values_of(field.annotation, field))
        (required if field.is_required() or name == "kind" or name in fixed else optional)[name] = values
    return st.fixed_dictionaries(required, optional=optional)


def kinds(annotation: object, **of_kind: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of([of_kind.get(c.__name__, section(c)) for c in sections_of(annotation)])


def rollouts() -> st.SearchStrategy[dict[str, Any]]:
    full = {"top_p": st.just(1.0), "top_k": st.just(0), "min_p": st.just(0.0)}
    sizes = st.tuples(st.integers(2, 32), st.integers(1, 8)).map(
        lambda s: {"group_size": s[0], "batch_size": s[0] * s[1]}
    )
    cut = st.sampled_from(
        [{"truncation": t} for t in ("negative", "mask", "exclude")]
        + [{"truncation": "resume", "max_resumptions": n} for n in (1, 3)]
        + [{"truncation": "soft_penalty", "overlong_max_tokens": 100, "overlong_buffer_tokens": 20}]
    )
    skipped = ("batch_size", "group_size", "truncation", "max_resumptions", "overlong_max_tokens")
    skipped = (*skipped, "overlong_buffer_tokens", "dynamic_sampling", "max_extra_groups", "at_cap")
    skipped = (*skipped, "incomplete_groups", "min_group_fraction")
    filtering = st.sampled_from([{}, {"dynamic_sampling": True, "max_extra_groups": 3, "at_cap": "smaller"}])
    incomplete = st.sampled_from(
        [{"incomplete_groups": rule} for rule in ("train", "filter", "wait")]
        + [{"incomplete_groups": "train", "min_group_fraction": 0.5}]
    )
    plain = section(RolloutConfig, **full).map(lambda s: {k: v for k, v in s.items() if k not in skipped})
    return st.tuples(plain, sizes, cut, filtering, incomplete).map(
        lambda parts: parts[0] | parts[1] | parts[2] | parts[3] | parts[4]
    )


def runtimes() -> st.SearchStrategy[dict[str, Any]]:
    more = st.sampled_from([{}, {"oversample": 2}, {"oversample": 2, "stragglers": "park", "max_lag": 3}])
    plain = section(RuntimeConfig).map(lambda s: {k: v for k, v in s.items() if k not in ("oversample", "stragglers")})
    return st.tuples(plain, more).map(lambda parts: with_least_in_reach(parts[0] | parts[1]))


def with_least_in_reach(runtime: dict[str, Any]) -> dict[str, Any]:
    """At least so many at once is at most as many as at most."""
    if "least_concurrency" not in runtime:
        return runtime
    return runtime | {"least_concurrency": min(runtime["least_concurrency"], runtime.get("concurrency", 64))}


def objectives() -> st.SearchStrategy[dict[str, Any]]:
    """Every preset and free compositions, with what a preset leaves open and without what follows from its credit."""
    chosen = {"denominator": "token_mean", "credit": {"kind": "group_centered"}}

    def agree(config: Any, tree: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in tree.items() if k not in ("fixed_length_tokens", "reward_scaling")}
        kept |= {name: kept.get(name, chosen[name]) for name in config.UNDISCLOSED}
        return kept | ({"fixed_length_tokens": 128} if kept.get("denominator") == "fixed_length" else {})

    presets = sections_of(RecipeConfig.model_fields["objective"].annotation)
    return st.one_of([section(c).map(partial(agree, c)) for c in presets])


def fresh_models() -> st.SearchStrategy[dict[str, Any]]:
    heads = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
        lambda h: {"num_kv_heads": h[0], "num_heads": h[0] * h[1]}
    )
    plain = section(FreshModelConfig).map(
        lambda s: {k: v for k, v in s.items() if k not in ("num_heads", "num_kv_heads")}
    )
    return st.tuples(plain, heads).map(lambda parts: parts[0] | parts[1])


def evaluations() -> st.SearchStrategy[dict[str, Any]]:
    """One protocol in the section and others beside it, each with a name of its own."""

    def protocol(name: str) -> dict[str, st.SearchStrategy[Any]]:
        return {
            "name": st.just(name),
            "samples": st.integers(4, 99),
            "attempts": st.sampled_from([[], [1, 4], [3]]),
            "cover_rates": st.sampled_from([[], [0.5]]),
            "gold": st.sampled_from([[], [{"kind": "numeric", "tolerance": 0.1}]]),
            "sha256": st.just("0" * 64),
        }

    further = st.tuples(section(ProtocolConfig, **protocol("a")), section(ProtocolConfig, **protocol("b"))).map(list)
    own = {"also": st.one_of(st.just([]), further), "protocol": st.just([])}
    return section(EvaluationConfig, **protocol("own"), **own)


STEPS, WARM_UP = st.integers(20, 10**7), st.integers(0, 20)
"""A warm-up is no longer than its stage."""
DEVICES = st.sampled_from(["cpu", "cuda", "cuda:3"])


def with_room(tree: dict[str, Any]) -> dict[str, Any]:
    """A fresh model has as many positions as the engine serves, or more."""
    if tree["model"]["kind"] != "fresh":
        return tree
    serves = tree.get("engine", {}).get("max_context_tokens", 512)
    room = max(tree["model"].get("max_context_tokens", 512), serves)
    return tree | {"model": tree["model"] | {"max_context_tokens": room}}


RECIPES = st.fixed_dictionaries(
    {
        "run": section(RunConfig, name=st.just("made"), steps=STEPS, labels=st.just({"learner.dtype": "I: made"})),
        "model": kinds(RecipeConfig.model_fields["model"].annotation, FreshModelConfig=fresh_models()),
        "tasks": kinds(RecipeConfig.model_fields["tasks"].annotation),
        "environment": kinds(RecipeConfig.model_fields["environment"].annotation),
        "objective": objectives(),
        "rollout": rollouts(),
    },
    optional={
        "verifier": values_of(RecipeConfig.model_fields["verifier"].annotation),
        "learner": section(LearnerConfig, warmup_updates=WARM_UP, device=DEVICES),
        "runtime": runtimes(),
        "evaluation": evaluations(),
        "evidence": section(EvidenceConfig),
        "engine": st.sampled_from(
            [{}, {"mode": "fast", "dtype": "bfloat16"}, {"num_slots": 3, "max_context_tokens": 99}]
        ),
        "stages": st.tuples(
            section(SupervisedStageConfig, name=st.just("a"), steps=STEPS, warmup_updates=WARM_UP),
            section(RlStageConfig, name=st.just("b")),
        ).map(list),
    },
).map(with_room)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(RECIPES)
def test_a_stored_recipe_resolves_to_itself(tree):
    recipe = RecipeConfig.model_validate(tree)
    text = recipe_toml(recipe)
    again = resolve_text(text, origin="run made")
    assert again.recipe == recipe
    assert recipe_toml(again.recipe) == text
