"""The questions that `check` puts to a run, kept as SQL beside this module.

A file holds a heading and several questions, parted by lines of dashes.
"""

from functools import cache
from importlib.resources import files

__all__ = ["questions", "statements"]

_BORDER = "\n------\n"


@cache
def questions(name: str) -> tuple[str, ...]:
    """The questions of one file; each gives a place, what is wrong there, and what was expected."""
    return tuple(part.strip() for part in statements(name).split(_BORDER)[1:])


@cache
def statements(name: str) -> str:
    """The whole text of one file."""
    return (files("rollwright.evidence.checking") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
