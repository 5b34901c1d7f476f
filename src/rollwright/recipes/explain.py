"""An objective explained: its parts as formulas with their numbers, and how well each value is known."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ValidationError

from rollwright.algorithms.describe import UNKNOWN_NUMBER, Description, PartDescription, Undisclosed, describe
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.example_rows import example_masses
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.validation import check_objective
from rollwright.recipes.build.objective import Sizes, build_objective, compose
from rollwright.recipes.config.objective import Composition, ObjectiveConfig
from rollwright.recipes.config.objective.credit import UNFED
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.sampling import RolloutConfig
from rollwright.recipes.config.shapes import kind_of, sections_of
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Plain, Tree
from rollwright.recipes.keys import closest
from rollwright.recipes.resolve import Resolved, preset_names, resolve
from rollwright.recipes.sentences import problems_of
from rollwright.recipes.settings import apply_setting, expand_kinds, read_settings
from rollwright.recipes.stand_ins import first_choice, made_with_stand_ins

__all__ = ["Explanation", "KnownValue", "explain", "labels_of", "objective_names"]

Label = Literal["D", "C", "I"]

_ROLES = {"credit": "credit", "ratio": "ratio", "surrogate": "surrogate", "denominator": "weights"}
"""Key of a composition to the part that it decides."""
_SHOWN = (
    "objective",
    "rollout.truncation",
    "rollout.overlong_max_tokens",
    "rollout.overlong_buffer_tokens",
    "rollout.group_size",
    "rollout.batch_size",
    "rollout.max_episode_tokens",
    "runtime.max_lag",
    "learner.num_minibatches",
    "learner.num_epochs",
)
"""Keys of a recipe that decide the loss, sections by their name."""
_CODE = re.compile(r"\b(public|code|verl(-agent)?|TRL|prime-rl|slime|open-r1)\b")
_OURS = re.compile(r"\b(ours?|derived|inferred|here|this project)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownValue:
    """A resolved value of a recipe."""

    key: str
    value: Plain
    origin: str
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a person or a script is told."""

    title: str
    description: Description
    masses: Mapping[str, tuple[float, ...]]
    """Component to what its weights make of the example rows; without those whose denominator is left out."""
    left_out: tuple[str, ...]
    """Keys without default, which the objective needs to be trained."""
    unfed: str | None
    """What it reads and no stage of a run makes yet."""
    values: tuple[KnownValue, ...]
    """Of a recipe, those that decide its loss; of an objective by name the sizes that it was made with."""


class _Composed(StrictConfig):
    """What an objective alone is made from."""

    objective: ObjectiveConfig
    rollout: RolloutConfig = RolloutConfig()


def explain(name: str, settings: Sequence[str] = ()) -> Explanation:
    """Explain the objective of a recipe, or one by its name.

    Args:
        name: a recipe that ships, the path of a .toml file, or the kind of an objective, such as `gspo`.
        settings: each `dotted.key=value`; of an objective by name the sections `objective` and `rollout` are there.

    Raises:
        RecipeError: for a name or a key that does not exist, and for a composition that means nothing, with the reason.
    """
    try:
        if name in preset_names() or name.endswith(".toml") or "/" in name:
            return _of_recipe(resolve(name, settings))
        if name in objective_names():
            return _of_objective(name, settings)
    except ObjectiveError as error:
        raise RecipeError(str(error)) from error
    known = (*preset_names(), *objective_names())
    near = closest(name, known, 0.5)
    raise RecipeError(
        f"no recipe and no objective {name!r}{f'; did you mean {near}?' if near else '.'} Recipes: "
        f"{', '.join(preset_names())}, or the path of a .toml file. Objectives: {', '.join(objective_names())}."
    )


def objective_names() -> tuple[str, ...]:
    """Kinds of objectives, sorted."""
    return tuple(sorted(kind for one in _compositions() if (kind := kind_of(one)) is not None))


def labels_of(source: str) -> tuple[Label, ...]:
    """How well a method is known, by its source: D documented in a publication, C seen in public code, I ours."""
    found: dict[Label, None] = {}
    for clause in filter(None, source.split(";")):
        is_code, is_ours = bool(_CODE.search(clause)), bool(_OURS.search(clause))
        found |= {"D": None} if "arXiv" in clause or not (is_code or is_ours) else {}
        found |= {"C": None} if is_code else {}
        found |= {"I": None} if is_ours else {}
    return tuple(found)


def _of_recipe(resolved: Resolved) -> Explanation:
    recipe = resolved.recipe
    objective = build_objective(recipe.objective, recipe.rollout)
    values = [
        KnownValue(key=key, value=value, origin=resolved.origins[key], label=resolved.label_of(key))
        for shown in _SHOWN
        for key, value in resolved.values().items()
        if key == shown or key.startswith(f"{shown}.")
    ]
    return Explanation(
        title=f"recipe {recipe.run.name}, objective {objective.name}",
        description=describe(objective),
        masses=_masses(objective),
        left_out=(),
        unfed=UNFED.get(recipe.objective.credit.kind),
        values=tuple(values),
    )


def _of_objective(name: str, settings: Sequence[str]) -> Explanation:
    tree: Tree = {"objective": {"kind": name}}
    chosen: set[str] = set()
    for setting in read_settings(settings):
        chosen.add(apply_setting(RecipeConfig, tree, setting))
        expand_kinds(RecipeConfig, tree)
    open_keys = _fill_open_keys(tree)
    try:
        composed = _Composed.model_validate(tree)
    except ValidationError as error:
        raise RecipeError.of(problems_of(error, _Composed, lambda key: "")) from error
    rollout = composed.rollout
    sizes = Sizes(max_tokens=rollout.max_episode_tokens, num_rows=rollout.batch_size)

    def make(config: ObjectiveConfig) -> Objective:
        objective = compose(config, sizes)
        check_objective(objective, group_size=rollout.group_size)
        return objective

    objective, stood_in = made_with_stand_ins(composed.objective, make)
    sizes_used = {name: dict(rollout)[name] for name in ("group_size", "batch_size", "max_episode_tokens")}
    return Explanation(
        title=f"objective {objective.name}",
        description=_without(describe(objective), open_keys),
        masses={} if "denominator" in open_keys else _masses(objective),
        left_out=tuple(f"objective.{key}" for key in (*open_keys, *stood_in)),
        unfed=UNFED.get(composed.objective.credit.kind),
        values=tuple(
            KnownValue(
                key=f"rollout.{size}",
                value=value,
                origin="command line" if f"rollout.{size}" in chosen else "default",
                label=None,
            )
            for size, value in sizes_used.items()
        ),
    )


def _fill_open_keys(tree: Tree) -> Mapping[str, str]:
    """Write any value, in place, under each key that the publication of the objective leaves open; key to who did."""
    section = tree["objective"]
    if not isinstance(section, dict):
        return {}
    kind = next((one for one in _compositions() if kind_of(one) == section.get("kind")), None)
    open_keys = {} if kind is None else {key: who for key, who in kind.UNDISCLOSED.items() if key not in section}
    if kind is not None:
        section |= {key: first_choice(kind.model_fields[key]) for key in open_keys}
    return open_keys


def _without(description: Description, open_keys: Mapping[str, str]) -> Description:
    """The description with `?` for the parts that open keys decide."""
    roles = {_ROLES[key]: (key, who) for key, who in open_keys.items()}

    def hidden(part: PartDescription) -> PartDescription:
        if part.role not in roles:
            return replace(part, inner=tuple(hidden(one) for one in part.inner))
        key, who = roles[part.role]
        return PartDescription(
            role=part.role,
            place=part.place,
            name=UNKNOWN_NUMBER,
            method=None,
            formula=UNKNOWN_NUMBER,
            numbers={},
            facts=frozenset(),
            source="",
            undisclosed=(Undisclosed(name=key, who=who, value=UNKNOWN_NUMBER),),
            inner=(),
        )

    return replace(description, parts=tuple(hidden(part) for part in description.parts))


def _masses(objective: Objective) -> dict[str, tuple[float, ...]]:
    rules = {objective.component: objective.weights, **{one.component: one.weights for one in objective.regularizers}}
    return {component: example_masses(rule) for component, rule in rules.items()}


def _compositions() -> list[type[Composition]]:
    return [one for one in sections_of(ObjectiveConfig) if issubclass(one, Composition)]
