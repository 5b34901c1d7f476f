"""A coefficient that goes from one number to another over the updates."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["LinearAnneal"]


@dataclass(slots=True, kw_only=True, eq=False)
class LinearAnneal:
    """start + (end − start)·min(updates, over)/over: a budget that tightens, a bonus that fades out."""

    start: float
    """Of the first update."""
    end: float
    """From update `over` on."""
    over: int
    """Updates, at least 1."""
    _updates: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Refuse a schedule over nothing."""
        if self.over < 1:
            raise ObjectiveError(f"a coefficient anneals over {self.over} updates; it needs at least 1.")

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Count the update; no metric is read."""
        del metrics
        self._updates += 1

    def value(self) -> float:
        """The coefficient of the next update."""
        return self.start + (self.end - self.start) * min(self._updates, self.over) / self.over

    def state(self) -> Mapping[str, float]:
        """How many updates were made."""
        return {"updates": float(self._updates)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from that update."""
        self._updates = int(state["updates"])
