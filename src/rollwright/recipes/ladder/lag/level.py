"""A level as its file has it: a recipe, the axis along which its arms differ, and gates with their limits."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from pydantic import TypeAdapter

__all__ = ["Axis", "FinalProtocol", "Gate", "Level", "Measure", "load_level"]

Measure = Literal["quality", "clock", "whole", "kl", "ess", "weights", "mismatch", "probe", "disagreement"]
"""What a gate looks at; `gates` says what each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The one key in which the arms of a level differ."""

    name: str
    """An arm is called by it and its value: `lag 2`."""
    key: str
    values: tuple[int, ...]
    """One arm each, in the order to run them; the first is the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalProtocol:
    """The evaluation of the last checkpoint."""

    tasks: int
    """Held-out tasks."""
    samples: int
    """Attempts at each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One limit, fixed before the run."""

    measure: Measure
    bound: Literal["at_least", "at_most"]
    limit: float
    label: Literal["D", "C", "I"]
    """How well the limit is known: disclosed by a source, confirmed in an artifact, chosen here."""
    source: str
    """Where it comes from, and its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What is run, and what must hold of it."""

    number: int
    title: str
    recipe: str
    settings: tuple[str, ...]
    """`key=value` on top of the recipe, for every arm."""
    axis: Axis
    final: FinalProtocol
    gates: tuple[Gate, ...]


def load_level() -> Level:
    """Level 5, as its file has it."""
    file = resources.files("rollwright.recipes.ladder") / "levels" / "5.toml"
    return TypeAdapter(Level).validate_python(tomllib.loads(file.read_text(encoding="utf-8")))
