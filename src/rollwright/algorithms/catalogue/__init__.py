"""The catalogue: every method with formula, source and place; every part of an objective with its formula."""

from typing import Final

from rollwright.algorithms.catalogue import (
    corrections,
    credit_groups,
    credit_values,
    denominators,
    diagnostics,
    evaluation,
    regularizers,
    rewards,
    sampling,
    staleness,
    surrogates,
)
from rollwright.algorithms.catalogue.entries import Fact, FactWhen, Method, Part, Role

__all__ = ["FAMILIES", "METHODS", "PARTS", "Fact", "FactWhen", "Method", "Part", "Role", "method_of", "part_of"]

FAMILIES: Final = (
    "credit_groups",
    "credit_values",
    "corrections",
    "denominators",
    "surrogates",
    "regularizers",
    "sampling",
    "staleness",
    "rewards",
    "evaluation",
    "diagnostics",
)
"""Names of the families, in the order of this library's pages."""

METHODS: Final[tuple[Method, ...]] = tuple(
    sorted(
        (
            *credit_groups.METHODS,
            *credit_values.METHODS,
            *corrections.METHODS,
            *denominators.METHODS,
            *surrogates.METHODS,
            *regularizers.METHODS,
            *sampling.METHODS,
            *staleness.METHODS,
            *rewards.METHODS,
            *evaluation.METHODS,
            *diagnostics.METHODS,
        ),
        key=lambda method: int(method.id[1:]),
    )
)
"""Every method, in the order of the ids."""

PARTS: Final[tuple[Part, ...]] = (
    *credit_groups.PARTS,
    *credit_values.PARTS,
    *corrections.PARTS,
    *denominators.PARTS,
    *surrogates.PARTS,
    *regularizers.PARTS,
    *sampling.PARTS,
    *staleness.PARTS,
    *rewards.PARTS,
    *evaluation.PARTS,
    *diagnostics.PARTS,
)
"""Every part of an objective."""


def method_of(method: str) -> Method | None:
    """The method with this id; None where there is none."""
    return next((one for one in METHODS if one.id == method), None)


def part_of(make: object, role: Role | None) -> Part | None:
    """The part that a function or class is in a role; None where the catalogue has none.

    Args:
        make: the function itself, or the class of the record.
        role: where it stands; None takes the first of any role.
    """
    return next((one for one in PARTS if one.make is make and role in (None, one.role)), None)
