"""Which source the next group comes from, so that what is accepted follows the targets and not the speed (M103)."""

from collections.abc import Collection, Mapping

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["DeficitMixer", "shares"]


class DeficitMixer:
    """Counts accepted groups against target shares; the largest deficit is next."""

    def __init__(self, targets: Mapping[str, float]) -> None:
        """Store the targets.

        Args:
            targets: share of each source, above 0, summing to 1; their order breaks ties.
        """
        total = sum(targets.values())
        if not targets or min(targets.values()) <= 0 or abs(total - 1.0) > 1e-9:
            raise ObjectiveError(f"targets are {dict(targets)}, {total:g} in all; shares are above 0 and sum to 1.")
        self._targets = dict(targets)
        self._deficits = dict.fromkeys(targets, 0.0)

    @property
    def deficits(self) -> Mapping[str, float]:
        """Groups that each source is owed: target·accepted − its own, while no source was ever empty."""
        return dict(self._deficits)

    def accept(self, source: str, groups: float = 1.0, *, empty: Collection[str] = ()) -> None:
        """Count groups that were accepted for training.

        Args:
            source: that they came from.
            groups: how many.
            empty: sources without tasks; what they are owed stays as it is, and the others share the growth.
        """
        if source not in self._targets:
            raise ObjectiveError(f"source {source} has no target; the sources are {list(self._targets)}.")
        growing = {name: share for name, share in self._targets.items() if name == source or name not in empty}
        whole = sum(growing.values()) if len(growing) < len(self._targets) else 1.0
        for name, share in growing.items():
            self._deficits[name] += share * groups / whole
        self._deficits[source] -= groups

    def next_source(self, *, running: Mapping[str, float] | None = None, empty: Collection[str] = ()) -> str:
        """The source with the largest deficit.

        Args:
            running: groups in flight by source, counted as if they were accepted: else one slow source gets all.
            empty: sources without tasks, which are passed over.
        """
        flying = running or {}
        total = sum(flying.values())
        owed = {
            name: self._deficits[name] + share * total - flying.get(name, 0.0)
            for name, share in self._targets.items()
            if name not in empty
        }
        if not owed:
            raise ObjectiveError(f"every source of {list(self._targets)} is empty; there is no next group.")
        return max(owed, key=lambda name: owed[name])

    def state(self) -> Mapping[str, float]:
        """All that is needed to go on: the deficits."""
        return dict(self._deficits)

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from deficits that `state` gave."""
        if set(state) != set(self._targets):
            raise ObjectiveError(f"the state knows {sorted(state)} and the targets are of {sorted(self._targets)}.")
        self._deficits = {name: state[name] for name in self._targets}


def shares(counts: Mapping[str, float]) -> Mapping[str, float]:
    """Each name's share of the sum of counts; 0 everywhere where there is nothing to share."""
    total = sum(counts.values())
    return {name: count / total if total else 0.0 for name, count in counts.items()}
