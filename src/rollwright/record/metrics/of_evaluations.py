"""Metrics of an evaluation, on the tasks of a frozen protocol."""

from typing import Final

from rollwright.record.metrics.entry import MetricEntry

__all__ = ["OF_EVALUATIONS"]

_MEASURE: Final = "rollwright.evaluation.measures:measure"

OF_EVALUATIONS: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "success",
        "mean over tasks of the share of successes",
        "fraction",
        _MEASURE,
        labels=("slice",),
        known_as=("heldout/success",),
        table="evaluations",
        direction="higher",
        alarm="falls while the reward of training rises: look for hacking",
    ),
    MetricEntry(
        "reward",
        "mean over tasks of the mean reward",
        "reward",
        _MEASURE,
        labels=("slice",),
        table="evaluations",
        direction="higher",
    ),
    MetricEntry(
        "pass_at_k",
        "mean over tasks of the unbiased pass@k",
        "fraction",
        _MEASURE,
        labels=("k", "slice"),
        known_as=("explore/pass_at_k", "explore/pass_at_1"),
        table="evaluations",
        direction="higher",
        alarm="pass@1 up and pass@k down: sharpening",
    ),
    MetricEntry("tool_calls", "mean over tasks of calls", "calls", _MEASURE, labels=("slice",), table="evaluations"),
    MetricEntry(
        "tool_use",
        "mean over tasks of episodes with a call",
        "fraction",
        _MEASURE,
        labels=("slice",),
        table="evaluations",
    ),
    MetricEntry(
        "tool_call_validity",
        "mean over tasks of the share of valid calls",
        "fraction",
        _MEASURE,
        labels=("slice",),
        table="evaluations",
        direction="higher",
    ),
    MetricEntry(
        "response_tokens",
        "quantiles of action tokens of an episode",
        "tokens",
        _MEASURE,
        labels=("quantile", "slice"),
        table="evaluations",
    ),
    MetricEntry(
        "terminal_reason",
        "share of episodes by how they ended",
        "fraction",
        _MEASURE,
        labels=("reason", "slice"),
        table="evaluations",
    ),
)
