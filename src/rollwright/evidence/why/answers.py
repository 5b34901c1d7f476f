"""What `why` answers: facts, each with the query or the arithmetic that gives it, and parts that hang on them."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Answer", "Fact", "Value"]

Value = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that the folder says, or that follows from what it says."""

    name: str
    value: Value
    text: str
    """A sentence or an equation, for a person."""
    source: str = ""
    """SQL for `rollwright query` whose first value this is; empty: arithmetic over facts above it, as the text says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Facts under a heading, and what hangs on them."""

    title: str
    facts: tuple[Fact, ...]
    parts: tuple["Answer", ...] = ()

    def fact(self, name: str) -> Fact:
        """The first fact of that name, here or in a part.

        Raises:
            KeyError: when there is none.
        """
        found = self.find(name)
        if found is None:
            raise KeyError(f"the answer {self.title!r} has no fact {name!r}")
        return found

    def find(self, name: str) -> Fact | None:
        """The first fact of that name, here or in a part; None where there is none."""
        for fact in self.facts:
            if fact.name == name:
                return fact
        for part in self.parts:
            if (found := part.find(name)) is not None:
                return found
        return None

    def as_tree(self) -> Mapping[str, object]:
        """The answer as a machine reads it."""
        facts = [{"name": f.name, "value": f.value, "text": f.text, "source": f.source} for f in self.facts]
        return {"title": self.title, "facts": facts, "parts": [part.as_tree() for part in self.parts]}
