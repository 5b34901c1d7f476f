"""Cells of a table that a query gave, as what they hold."""

from collections.abc import Mapping

__all__ = ["labels_of", "number"]


def number(cell: object) -> float:
    assert isinstance(cell, int | float), cell
    return float(cell)


def labels_of(cell: object) -> Mapping[str, str]:
    assert isinstance(cell, Mapping), cell
    return {str(key): str(value) for key, value in cell.items()}
