"""What the graders of a step's episodes say of themselves: whether they agree, waver, and follow place or length."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.record import ScoredTrajectory, Verdict
from rollwright.statistics.correlation import pearson

__all__ = ["grader_metrics"]

_SPREAD: Final = "spread"
"""Component of a verdict that several graders gave together."""
_SUMMARIES: Final = frozenset({_SPREAD, "mean", "variance"})
_FLAKY: Final = "flaky"
"""Component of a verdict that was made of several runs: checks that came out both ways."""
_GAP: Final = "position_gap"


def grader_metrics(
    members: Sequence[ScoredTrajectory], graders: Collection[str], *, success_at: float
) -> Iterator[Diagnostic]:
    """The numbers of a batch's verdicts.

    Args:
        members: of the batch.
        graders: verifiers that each say whether a task was solved.
        success_at: value from which a grader accepts, verifier units.

    Yields:
        Shares over the episodes that are looked at; None where no episode was.
    """
    splits = [split for m in members if (split := _differ(m, graders, success_at)) is not None]
    yield _mean("verifier/disagreement", [float(split) for split in splits], "fraction")
    wavering = [value > 0 for m in members for value in _components(m, _FLAKY)]
    yield _mean("verifier/flaky_rate", [float(one) for one in wavering], "fraction")
    yield _mean("judge/position_gap", [value for m in members for value in _components(m, _GAP)], "fraction")
    for verifier in sorted({v.verifier for m in members for v in m.verdicts if v.scope == "trajectory"}):
        pairs = [
            (float(v.outcome), float(m.trajectory.num_action_tokens))
            for m in members
            for v in m.verdicts
            if v.verifier == verifier and v.scope == "trajectory" and not isinstance(v.outcome, str)
        ]
        yield Diagnostic(
            name="judge/len_corr",
            value=_correlation(pairs),
            unit="1",
            num_items=len(pairs),
            labels={"verifier": verifier},
        )


def _differ(member: ScoredTrajectory, graders: Collection[str], success_at: float) -> bool | None:
    """Whether one grader accepts and another does not; None where fewer than two gave a number."""
    said: list[bool] = []
    for verdict in member.verdicts:
        if isinstance(verdict.outcome, str):
            continue
        if _is_ensemble(verdict):
            said += [part.value >= success_at for part in verdict.components if part.name not in _SUMMARIES]
        elif verdict.verifier in graders:
            said.append(float(verdict.outcome) >= success_at)
    return len(set(said)) > 1 if len(said) > 1 else None


def _is_ensemble(verdict: Verdict) -> bool:
    return any(part.name == _SPREAD for part in verdict.components)


def _components(member: ScoredTrajectory, name: str) -> list[float]:
    return [part.value for verdict in member.verdicts for part in verdict.components if part.name == name]


def _correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's of score and length; None where one does not vary."""
    scores, lengths = np.array(pairs, np.float64).reshape(-1, 2).T
    return pearson(scores, lengths)


def _mean(name: str, values: Sequence[float], unit: str) -> Diagnostic:
    value = sum(values) / len(values) if values else None
    return Diagnostic(name=name, value=value, unit=unit, num_items=len(values))
