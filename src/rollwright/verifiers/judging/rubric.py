"""Rubrics: weighted items, which of them are essential, and how many met items make a reward."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rollwright.record import Submission, canonical_json, digest
from rollwright.tasks import Json, TaskError, payload_of, read_json
from rollwright.verifiers.errors import GoldError, VerifierSetupError

__all__ = ["Aggregation", "CheckFn", "Rubric", "RubricItem", "rubric_from_json", "rubric_of_task"]

Aggregation = Literal["weighted", "essential_first", "points"]
"""`weighted`: met weight over all weight. `essential_first`: mean of the essential items, plus a share for the others
once all essential ones are met (RLR³). `points`: met points over all positive points, held in [0, 1]; items may be
worth less than 0 (HealthBench)."""
CheckFn = Callable[[Submission], bool]
_AGGREGATIONS = ("weighted", "essential_first", "points")


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricItem:
    """One criterion."""

    name: str
    """A word without blanks; the item's component."""
    text: str
    """What must hold, said so that it can be told from an answer alone."""
    weight: float = 1.0
    importance: Literal["essential", "additional"] = "additional"
    check: CheckFn | None = None
    """Decides the item instead of the judge; with a name of its own in the rubric's revision."""

    def parts(self) -> list[str | float]:
        """What decides the item, for a revision."""
        by = "judge" if self.check is None else f"{self.check.__module__}:{self.check.__qualname__}"
        return [self.name, self.text, float(self.weight), self.importance, by]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """Items with their aggregation."""

    items: tuple[RubricItem, ...]
    aggregation: Aggregation = "weighted"
    additional_share: float = 0.2
    """Under `essential_first`: what all additional items together add to the 1 of the essential ones."""

    def __post_init__(self) -> None:
        """Refuse a rubric that cannot be met."""
        names = [item.name for item in self.items]
        if not names or len(set(names)) != len(names) or any(not n.replace("_", "").isalnum() for n in names):
            raise VerifierSetupError(
                f"a rubric needs items with different names of letters, digits and _; it has {names}"
            )
        if sum(max(item.weight, 0.0) for item in self.items) <= 0:
            raise VerifierSetupError("no item of the rubric is worth anything; give one a weight above 0")
        if self.aggregation != "points" and any(item.weight < 0 for item in self.items):
            raise VerifierSetupError("an item of weight below 0 needs aggregation 'points'")
        if self.aggregation == "essential_first" and not any(i.importance == "essential" for i in self.items):
            raise VerifierSetupError("aggregation 'essential_first' needs an item of importance 'essential'")

    @property
    def revision(self) -> str:
        """A digest of items and aggregation: two rubrics of one revision grade alike."""
        return digest([self.aggregation, float(self.additional_share), [item.parts() for item in self.items]])[:16]

    def value(self, is_met: Sequence[bool]) -> float:
        """The reward of an answer.

        Args:
            is_met: one for each item, in order.

        Returns:
            In [0, 1]; under `essential_first` in [0, 1 + additional_share].
        """
        if self.aggregation == "essential_first":
            return self._essential_first(is_met)
        met = sum(item.weight for item, holds in zip(self.items, is_met, strict=True) if holds)
        return min(1.0, max(0.0, met / sum(max(item.weight, 0.0) for item in self.items)))

    def canonical(self) -> str:
        """Canonical JSON of a rubric without checks.

        Raises:
            VerifierSetupError: where an item is decided by a function.
        """
        if any(item.check is not None for item in self.items):
            raise VerifierSetupError("a rubric with checks of its own cannot be written as text")
        items: list[Json] = [
            {"name": i.name, "text": i.text, "weight": i.weight, "importance": i.importance} for i in self.items
        ]
        return canonical_json(
            {"items": items, "aggregation": self.aggregation, "additional_share": self.additional_share}
        )

    def _essential_first(self, is_met: Sequence[bool]) -> float:
        essential = [holds for i, holds in zip(self.items, is_met, strict=True) if i.importance == "essential"]
        others = [holds for i, holds in zip(self.items, is_met, strict=True) if i.importance == "additional"]
        base = sum(essential) / len(essential)
        if not all(essential) or not others:
            return base
        return base + self.additional_share * sum(others) / len(others)


def rubric_from_json(given: Json) -> Rubric:
    """A rubric as `Rubric.canonical` wrote it; a list of items alone is weighted.

    Items: `{"name": …, "text": …, "weight": 1, "importance": "additional"}`; `criterion` stands for `text` and `points`
    for `weight`, and a missing name is the item's number.

    Raises:
        VerifierSetupError: for anything else.
    """
    table = given if isinstance(given, Mapping) else {"items": given}
    entries, aggregation = table.get("items"), table.get("aggregation", "weighted")
    share = table.get("additional_share", 0.2)
    if not isinstance(entries, Sequence) or isinstance(entries, str) or aggregation not in _AGGREGATIONS:
        raise VerifierSetupError(
            f"a rubric is a list of items, or has `items` and an `aggregation` of {', '.join(_AGGREGATIONS)}; given is "
            f"{canonical_json(given)[:200]}"
        )
    if not isinstance(share, int | float):
        raise VerifierSetupError(f"additional_share is {share!r}; it is a number")
    return Rubric(
        items=tuple(_item(entry, place) for place, entry in enumerate(entries)),
        aggregation=aggregation,
        additional_share=float(share),
    )


def rubric_of_task(submission: Submission) -> Rubric:
    """The rubric that stands in the task's `info.rubric`.

    Raises:
        GoldError: where there is none, or it cannot be read.
    """
    try:
        given = payload_of(submission.task).info.get("rubric")
    except (TaskError, ValueError) as error:
        raise GoldError(str(error)) from error
    if given is None:
        raise GoldError("the task has no info.rubric")
    try:
        return rubric_from_json(read_json(given) if isinstance(given, str) else given)
    except ValueError as error:
        raise GoldError(f"info.rubric: {error}") from error


def _item(entry: Json, place: int) -> RubricItem:
    if not isinstance(entry, Mapping):
        raise VerifierSetupError(f"item {place + 1} of the rubric is no map: {entry!r}")
    name, text = entry.get("name", f"item_{place + 1}"), entry.get("text", entry.get("criterion"))
    weight, importance = entry.get("weight", entry.get("points", 1.0)), entry.get("importance", "additional")
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not isinstance(name, str) or not isinstance(text, str) or not is_number:
        raise VerifierSetupError(f"item {place + 1} of the rubric needs a text and a number as weight: {entry!r}")
    if importance not in ("essential", "additional"):
        raise VerifierSetupError(f"item {place + 1}: importance is 'essential' or 'additional', not {importance!r}")
    return RubricItem(
        name=name,
        text=text,
        weight=float(cast("float", weight)),
        importance=importance,
    )
