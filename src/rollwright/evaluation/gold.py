"""A second verifier on the same episodes: what the proxy pays and the gold does not (M122, overoptimisation)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rollwright.evaluation.measured import Measured, mean_by_task, plain
from rollwright.evaluation.outcomes import Outcomes, gold_value
from rollwright.evaluation.protocol import EvaluationProtocol

__all__ = ["gold_measures"]

_SUCCESS = 1.0
"""Of the gold verifier's value: solved whole."""


def gold_measures(protocol: EvaluationProtocol, outcomes: Outcomes, labels: Mapping[str, str]) -> Iterator[Measured]:
    """Gold success, the gap of proxy over gold success on the same attempts, and how often they differ.

    Attempts to which either gave no number stand in none of them.

    Args:
        protocol: names the gold verifier; without one there is nothing to measure.
        outcomes: of the attempts.
        labels: of the rows.
    """
    if not protocol.gold_verifier:
        return
    labeled = {**labels, "verifier": protocol.gold_verifier}
    found = [
        (task, hit, value)
        for member, task, hit in zip(outcomes.scored, outcomes.tasks, outcomes.successes, strict=True)
        if (value := gold_value(protocol, member)) is not None
    ]
    tasks = [task for task, _, _ in found]
    golds = [float(value >= _SUCCESS) for _, _, value in found]
    gaps = [float(hit) - gold for (_, hit, _), gold in zip(found, golds, strict=True)]
    differs = [abs(gap) for gap in gaps]
    level = protocol.level
    yield mean_by_task("gold_success", golds, tasks, level=level, labels=labeled, is_share=True)
    disagreement = mean_by_task("gold_disagreement", differs, tasks, level=level, labels=labeled, is_share=True)
    gap = mean_by_task("gold_gap", gaps, tasks, level=level, labels=labeled, is_share=False)
    yield _within(gap, disagreement)
    yield disagreement
    yield plain("gold_unscored", float(len(outcomes.scored) - len(found)), labeled, len(outcomes.expected))


def _within(gap: Measured, disagreement: Measured) -> Measured:
    """Where both always agreed, the interval of the gap has no width; it is at most the share that may differ."""
    if disagreement.value != 0.0 or disagreement.high is None:
        return gap
    return replace(gap, low=-disagreement.high, high=disagreement.high, method=disagreement.method)
