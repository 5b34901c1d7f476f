"""The catalogue: every method with formula, source and place; every part of an objective with its formula."""

import importlib

from rollwright.algorithms.catalogue.entries import Fact, FactWhen, Method, Part, Role

__all__ = ["FAMILIES", "METHODS", "PARTS", "Fact", "FactWhen", "Method", "Part", "Role", "method_of", "part_of"]

FAMILIES = (
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


def _collected() -> tuple[tuple[Method, ...], tuple[Part, ...]]:
    methods: list[Method] = []
    parts: list[Part] = []
    for family in FAMILIES:
        try:
            module = importlib.import_module(f"rollwright.algorithms.catalogue.{family}")
        except (ImportError, SyntaxError):  # TODO: families that are not written yet
            continue
        methods += module.METHODS
        parts += module.PARTS
    return tuple(sorted(methods, key=lambda one: int(one.id[1:]))), tuple(parts)


METHODS, PARTS = _collected()
"""In the order of their ids; in the order of the families."""


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
