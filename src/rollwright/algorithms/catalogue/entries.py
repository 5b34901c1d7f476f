"""What the catalogue says of a method, and of the parts of an objective that carry it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Fact", "FactWhen", "Method", "Part", "Role"]

Role = Literal["credit", "ratio", "keep", "correction", "surrogate", "weights", "regularizer", "controller", "stage"]

Fact = Literal[
    "token_credit",  # credit: advantages of one row may differ
    "kl_in_reward",  # credit: a KL to the reference is part of the reward
    "teacher_gap",  # credit: the advantage is a score of the current update and no reward
    "covers_staleness",  # ratio: current over behavior, so staleness and mismatch are in it
    "corrects_staleness",  # correction or surrogate: weighs or cuts by proximal/behavior or current/behavior
    "corrects_update",  # correction: weighs by current/behavior, so the size of the update is in it
    "row_advantage",  # surrogate: reads one advantage a row
    "row_ratio",  # ratio: one value a row
    "takes_row_ratio",  # surrogate: of one ratio a row
    "takes_prefix_ratio",  # surrogate: of the ratio up to each token
    "kl_in_loss",  # regularizer: a KL to the reference
    "reads_no_ratio",  # surrogate: of the log-probability itself
]
"""What `contradictions.py` looks at when it refuses parts that contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of the catalogue."""

    id: str
    """M01 …; never renumbered."""
    name: str
    family: str
    formula: str
    """One line, in the notation of the family's page."""
    source: str
    """Publication, or public code."""
    where: tuple[str, ...]
    """`rollwright.room.module:name` of each function that carries it out."""
    undisclosed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Constant to who names it without its value."""
    note: str = ""
    """A difference between public implementations, and the option that gives theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactWhen:
    """A fact that holds for one value of an argument: `over="behavior"` makes a ratio cover staleness."""

    fact: Fact
    argument: str
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A function or record that stands in an objective."""

    make: Callable[..., object]
    """The function itself, or the class of the record."""
    role: Role
    method: str
    formula: str
    """With {argument} where a number of the composition belongs."""
    facts: frozenset[Fact] = frozenset()
    facts_when: tuple[FactWhen, ...] = ()
