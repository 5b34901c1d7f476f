"""The numbers of an audit as metrics of the run that it looked at, kept behind its steps."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from rollwright.evidence import CommitRows, Event, RunFolder
from rollwright.recipes.audits.of_runs import Labeled, RunAudit
from rollwright.record import Metric
from rollwright.statistics import Interval
from rollwright.statistics.verifier_audit import VerifierErrors, exact_upper_bound

__all__ = ["audit_metrics", "keep_audit"]

_Row = tuple[str, float | None, str, int, Mapping[str, str]]
"""Name, value, unit, what it is made of, labels."""


def audit_metrics(audit: RunAudit, *, step: int, number: int, now: datetime) -> tuple[Metric, ...]:
    """What was found, under the names of the list of metrics.

    Args:
        audit: what was asked for of it decides which there are.
        step: the run's newest.
        number: tells the audits of a run apart.
        now: their time stamp.
    """
    return tuple(
        Metric(
            step=step,
            update=0,
            name=name,
            value=value,
            unit=unit,
            labels={"audit": str(number), **labels},
            num_items=num_items,
            recorded_at=now,
        )
        for name, value, unit, num_items, labels in _rows(audit)
    )


def keep_audit(path: Path, audit: RunAudit) -> int:
    """Commit the numbers of an audit to its run; no step of it changes.

    Returns:
        How many there are.
    """
    with RunFolder.open(path, "write") as folder:
        now = datetime.now(UTC)
        step = max((commit.step for commit in folder.commits), default=0)
        number = folder.next_commit
        metrics = audit_metrics(audit, step=step, number=number, now=now)
        if metrics:
            folder.commit(CommitRows(kind="score", step=step, metrics=metrics), at=now)
            text = f"an audit of {audit.num_sampled} trajectories is kept in {len(metrics)} metrics"
            folder.record_event(Event(at=now, kind="audited", text=text, step=step, fields={"audit": str(number)}))
    return len(metrics)


def _rows(audit: RunAudit) -> Iterator[_Row]:
    if audit.labeled is not None:
        yield from _of_labels(audit.labeled)
    if (differ := audit.disagreement) is not None:
        count = len(differ.run_alone) + len(differ.other_alone)
        labels = {"verifier": differ.verifier}
        yield from _share("verifier/disagreement", count, differ.num, differ.rate, labels)
    if (flaky := audit.flakiness) is not None:
        yield from _share("verifier/flaky_rate", len(flaky.flaky), flaky.num, flaky.rate, {})
    for retold in audit.retold or ():
        labels = {"transform": retold.transform}
        yield "verifier/ipt_fail", retold.gap.failure_rate, "fraction", retold.num, labels
        yield "verifier/hack_gap", retold.gap.hack_gap, "reward", retold.num, labels
    if (probed := audit.probed) is not None:
        yield from _hacks(len(probed.paid), probed.num, "attacks")


def _of_labels(labeled: Labeled) -> Iterator[_Row]:
    parts: list[tuple[Mapping[str, str], VerifierErrors]] = [({}, labeled.overall)]
    parts += [({"source": source}, errors) for source, errors in sorted(labeled.by_source.items())]
    for labels, errors in parts:
        missed = None if errors.sensitivity is None else 1.0 - errors.sensitivity
        yield "verifier/fp_rate", errors.false_positive_rate, "fraction", labeled.num, labels
        yield "verifier/fn_rate", missed, "fraction", labeled.num, labels
    looked = sum(audit.audited_accepted for audit in labeled.counts.values())
    yield from _hacks(len(labeled.false_accepts), looked, "labels")


def _hacks(confirmed: int, looked: int, of: str) -> Iterator[_Row]:
    """What was paid and is wrong, of what was looked at; what was never looked at is bounded, not counted."""
    share = confirmed / looked if looked else None
    yield "verifier/hack_confirmed", share, "fraction", looked, {"of": of}
    bound = exact_upper_bound(confirmed, looked) if looked else None
    yield "verifier/hack_confirmed", bound, "fraction", looked, {"of": of, "bound": "upper"}


def _share(name: str, count: int, of: int, interval: Interval, labels: Mapping[str, str]) -> Iterator[_Row]:
    """A share with the ends of its interval; all three are undefined where nothing was looked at."""
    ends = {"": count / of if of else 0.0, "lower": interval.low, "upper": interval.high}
    for bound, value in ends.items():
        yield name, value if of else None, "fraction", of, {**labels, **({"bound": bound} if bound else {})}
