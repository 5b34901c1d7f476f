"""Metrics of an audit of a run's verifiers, kept behind its steps by `rollwright audit RUN --keep`."""

from typing import Final

from rollwright.record.metrics.entry import MetricEntry

__all__ = ["OF_AUDITS"]

_AUDIT: Final = "rollwright.recipes.audits.kept:audit_metrics"

OF_AUDITS: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "verifier/fp_rate",
        "wrong episodes that are paid, of all wrong ones, by a person's labels of a stratified sample",
        "fraction",
        _AUDIT,
        direction="lower",
        alarm="gate",
        labels=("audit", "source"),
    ),
    MetricEntry(
        "verifier/fn_rate",
        "right episodes that are not paid, of all right ones, by a person's labels of a stratified sample",
        "fraction",
        _AUDIT,
        direction="lower",
        alarm="gate",
        labels=("audit", "source"),
    ),
    MetricEntry(
        "verifier/ipt_fail",
        "successes lost where the task is told anew, of all successes",
        "fraction",
        _AUDIT,
        direction="lower",
        alarm="gate",
        labels=("audit", "transform"),
    ),
    MetricEntry(
        "verifier/hack_gap",
        "mean reward minus mean reward of the same episodes where the task is told anew",
        "reward",
        _AUDIT,
        direction="lower",
        alarm="opening: stop",
        labels=("audit", "transform"),
        note="near 3.5 of 10 was seen",
    ),
    MetricEntry(
        "verifier/hack_confirmed",
        "what was paid and is wrong, of what was looked at, with the exact upper bound at .95",
        "fraction",
        _AUDIT,
        direction="lower",
        labels=("audit", "of", "bound"),
        note="of paid episodes that a person labeled, or of attacks; below 2% in one report, on what was audited",
    ),
)
