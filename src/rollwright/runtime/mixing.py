"""Which source the next group comes from, and what became of each source's groups (M103, M114).

    next_source ──► dispatched ──► completed ──► accepted (trained)
                        └──────────────┴───────► lost (filtered, expired, handed out again)

By `dispatch` sources take turns by weight, whatever becomes of their groups: those that end sooner, or are filtered
less, are trained more. By `deficit` the source that is furthest below its share of what was trained is next.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.algorithms.sampling.deficit_mixer import DeficitMixer, shares

__all__ = ["MixtureRule", "SourceMix"]

MixtureRule = Literal["dispatch", "deficit"]


class SourceMix:
    """Counts the groups of every source."""

    def __init__(self, targets: Mapping[str, float], rule: MixtureRule) -> None:
        """Start with nothing dispatched; `targets` sum to 1."""
        self._mixer = DeficitMixer(targets)
        self._rule = rule
        self._flying: Counter[str] = Counter()
        self._seen: dict[str, Counter[str]] = {name: Counter() for name in targets}
        """Since the last report."""

    def next_source(self) -> str | None:
        """Whose turn it is; None: the order of tasks says."""
        if self._rule == "dispatch":
            return None
        return self._mixer.next_source(running={name: float(count) for name, count in self._flying.items()})

    def dispatched(self, source: str) -> None:
        """A group was started."""
        self._flying[source] += 1
        self._seen[source]["proposed"] += 1

    def completed(self, source: str) -> None:
        """Every slot of a group has ended."""
        self._seen[source]["completed"] += 1

    def accepted(self, source: str, tokens: int) -> None:
        """A group is trained, with so many tokens that the policy sampled."""
        self._flying[source] -= 1
        self._seen[source]["accepted"] += 1
        self._seen[source]["tokens"] += tokens
        self._mixer.accept(source)

    def lost(self, source: str, why: Literal["filtered", "expired", "requeued"]) -> None:
        """A group came to another end: its source is owed one more."""
        self._flying[source] -= 1
        self._seen[source][why] += 1

    def report(self) -> tuple[Diagnostic, ...]:
        """Groups of each source since the last report, by what became of them, and its share of the trained tokens."""
        found: list[Diagnostic] = []
        tokens = {source: float(counts["tokens"]) for source, counts in self._seen.items()}
        for source, share in shares(tokens).items():
            found.append(
                Diagnostic(
                    name="data/token_share",
                    value=share if sum(tokens.values()) else None,
                    unit="fraction",
                    num_items=int(tokens[source]),
                    labels={"source": source},
                )
            )
        for source, counts in self._seen.items():
            for name in ("proposed", "completed", "accepted", "filtered", "expired", "requeued"):
                found.append(
                    Diagnostic(
                        name=f"data/{name}",
                        value=float(counts[name]),
                        unit="groups",
                        num_items=counts[name],
                        labels={"source": source},
                    )
                )
            counts.clear()
        return tuple(found)

    def state(self) -> Mapping[str, float]:
        """What each source is owed."""
        return self._mixer.state()

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from what was owed; what was in flight then is dispatched anew."""
        self._mixer.restore(state)
        self._flying.clear()
