"""Whether a trained candidate becomes the policy that samples: only if its gap to the engine shrinks (MIPU)."""

from collections.abc import Mapping

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["GapGate"]


class GapGate:
    """Remembers the gap of the policy that stands, and accepts a candidate whose gap is smaller."""

    def __init__(self, *, metric: str | None = None) -> None:
        """Name the proxy.

        Args:
            metric: that measures the gap of a synchronized candidate, smaller is better; which one the method uses is
                not disclosed.
        """
        self._metric = chosen("metric", metric, undisclosed_by="the abstract of MIPU")
        self._standing: float | None = None

    def accept_candidate(self, metrics: Mapping[str, float]) -> bool:
        """True where the candidate's gap is strictly below that of the last accepted one; the first is accepted.

        Args:
            metrics: of the candidate, measured on the engine; a gap that is not a number is never accepted.
        """
        if self._metric not in metrics:
            raise ObjectiveError(f"the metrics are {sorted(metrics)}; the gate compares {self._metric}.")
        gap = metrics[self._metric]
        is_better = gap == gap if self._standing is None else gap < self._standing
        if is_better:
            self._standing = gap
        return is_better

    def state(self) -> Mapping[str, float]:
        """The gap of the policy that stands; nothing before the first."""
        return {} if self._standing is None else {self._metric: self._standing}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a state that `state` gave."""
        self._standing = state.get(self._metric)
