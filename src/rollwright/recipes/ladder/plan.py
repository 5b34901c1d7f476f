"""A level as its file has it: runs, what they start from, and limits that were fixed before the first of them."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rollwright.recipes.errors import RecipeError
from rollwright.record.gates import Bound

__all__ = ["Factor", "Factorial", "Limit", "Plan", "RunSpec", "built_levels", "load_plan", "own_recipe"]

_STRICT = ConfigDict(extra="forbid")
_LEVELS = resources.files("rollwright.recipes.ladder") / "levels"
_RECIPES = resources.files("rollwright.recipes.ladder") / "recipes"

Role = Literal["start", "main", "compared"]
"""`start`: others go on from it. `main`: the gates are asked of it. `compared`: stands beside it in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One gate, fixed before the run."""

    __pydantic_config__ = _STRICT

    measure: str
    """Of `measures`."""
    bound: Literal["at_least", "at_most"]
    limit: float
    label: Literal["D", "C", "I"]
    """How well the limit is known: disclosed by a source, confirmed in an artifact, chosen here."""
    source: str
    """Where it comes from, and its unit."""

    @property
    def as_bound(self) -> Bound:
        """For the judge."""
        return Bound(side=self.bound, limit=self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run, for each of its seeds."""

    __pydantic_config__ = _STRICT

    name: str
    role: Role
    stages: Literal["supervised", "rl"]
    start: str = ""
    """Name of the run whose last weights it starts from; empty: from the model of the recipe."""
    settings: tuple[str, ...] = ()
    """`key=value` on top of the recipe, whichever it is."""
    own: tuple[str, ...] = ()
    """Further settings, which only the level's own recipe can take."""
    seeds: tuple[int, ...] = (0,)
    """Added to the seed that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A choice with two settings."""

    __pydantic_config__ = _STRICT

    letter: str
    name: str
    low: str
    high: str
    """What the choices are called."""
    low_settings: tuple[str, ...]
    high_settings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Factorial:
    """A half of all combinations: the last factor is the product of the others."""

    __pydantic_config__ = _STRICT

    start: str
    factors: tuple[Factor, ...]
    confounded: str
    """What cannot be told apart, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run, and what must hold of it."""

    __pydantic_config__ = _STRICT

    number: int
    title: str
    recipe: str
    """Of the level; a person may give another."""
    scale: str
    """How the build differs from the documented one, in a sentence."""
    runs: tuple[RunSpec, ...]
    limits: tuple[Limit, ...]
    second: str = ""
    """`package.module:callable` of a verifier that is unrelated to the recipe's."""
    price: float = 0.0
    """What a tool call costs, in units of a success."""
    factorial: Factorial | None = None
    judged: Literal["every", "best"] = "every"
    """Which main runs the gates are asked of: every one, or that with the largest success at the end."""


def built_levels() -> tuple[int, ...]:
    """Levels with a file, in order, and level 0, which needs none."""
    numbers = {int(file.name.removesuffix(".toml")) for file in _LEVELS.iterdir() if file.name.endswith(".toml")}
    return tuple(sorted({0, *numbers}))


def load_plan(number: int) -> Plan:
    """The plan of a level.

    Raises:
        RecipeError: where there is none, or its file is not one.
    """
    file = _LEVELS / f"{number}.toml"
    if not file.is_file():
        raise RecipeError(f"level {number} of the ladder has no plan; give {', '.join(map(str, built_levels()))}.")
    try:
        return TypeAdapter(Plan).validate_python(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise RecipeError(f"the plan of level {number} is none: {error}") from error


def own_recipe(name: str) -> str:
    """What `train` takes for a level's recipe: the path of a file beside the levels, or a preset's name."""
    file = Path(str(_RECIPES)) / f"{name}.toml"
    return str(file) if file.is_file() else name
