"""The audit of a run, for a machine and for a person."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rollwright.cli.machine import print_json
from rollwright.cli.screen import JsonScreen, PersonScreen, Screen, interval

if TYPE_CHECKING:
    from rollwright.recipes.audits.of_runs import Labeled, Probed, Retold, RunAudit
    from rollwright.statistics.verifier_audit import VerifierErrors

__all__ = ["show_run"]


def show_run(found: "RunAudit", screen: Screen) -> None:
    """One object for a machine; tables and sentences for a person."""
    if isinstance(screen, JsonScreen):
        print_json(asdict(found))
        return
    rows = [(source, accepted, rejected) for source, (accepted, rejected) in found.by_source.items()]
    screen.table(
        ("source", "accepted", "rejected"),
        [*rows, ("all", found.num_accepted, found.num_rejected)],
        title=f"judged trajectories of {found.run}; {found.num_sampled} are looked at",
    )
    if found.sheet is not None:
        screen.say(f"{found.num_sampled} trajectories to label in {found.sheet}: set `label`, then give it by --labels")
    if found.labeled is not None:
        _show_labeled(found.labeled, screen)
    if (other := found.disagreement) is not None:
        kappa = "undefined" if other.kappa is None else f"{other.kappa:.3f}"
        num = len(other.run_alone) + len(other.other_alone)
        rate = num / other.num if other.num else None
        screen.say(
            f"against {other.verifier}: {num} of {other.num} disagree "
            f"({interval(rate, other.rate.low, other.rate.high)}), "
            f"kappa {kappa}; {other.num_errors} without a number"
        )
        for name in other.run_alone:
            screen.say(f"  accepted here alone: {name}")
        for name in other.other_alone:
            screen.say(f"  accepted there alone: {name}")
    if (again := found.flakiness) is not None:
        rate = len(again.flaky) / again.num if again.num else None
        screen.say(
            f"judged {again.repeats} times: {len(again.flaky)} of {again.num} changed "
            f"({interval(rate, again.rate.low, again.rate.high)}) {' '.join(again.flaky)}".rstrip()
        )
    if found.retold is not None:
        _show_retold(found.retold, screen)
    if found.probed is not None:
        _show_probed(found.probed, screen)
    screen.say(f"{found.seconds:.1f} s")


def _show_labeled(labeled: "Labeled", screen: PersonScreen) -> None:
    rows = [(source, *_errors(errors)) for source, errors in labeled.by_source.items()]
    columns = (
        "source",
        "false accepts",
        "share of the accepted",
        "false rejects",
        "share of the rejected",
        "pass rate",
    )
    screen.table(
        columns, [*rows, ("all", *_errors(labeled.overall))], title=f"by {labeled.num} labels, for the whole run"
    )


def _errors(errors: "VerifierErrors") -> tuple[object, ...]:
    def share(low: float, high: float) -> str:
        return f"[{low:.3f}, {high:.3f}]"

    return (
        errors.false_positives,
        share(errors.false_accepts.low, errors.false_accepts.high),
        errors.false_negatives,
        share(errors.false_rejects.low, errors.false_rejects.high),
        errors.corrected_pass_rate,
    )


def _show_retold(retold: "tuple[Retold, ...]", screen: PersonScreen) -> None:
    if not retold:
        screen.say("tasks told anew: none of these tasks names entities, options, items or examples to change")
        return
    rows = [(one.transform, one.kind, one.num, one.gap.hack_gap, one.gap.failure_rate) for one in retold]
    screen.table(("tasks told anew", "kind", "pairs", "hack gap", "accepted that fail"), rows)
    for one in retold:
        for name in one.lost:
            screen.say(f"  {one.transform}: no longer accepted: {name}")


def _show_probed(probed: "Probed", screen: PersonScreen) -> None:
    screen.say(
        f"{probed.num} attacks on {probed.num_tasks} tasks: {len(probed.paid)} paid; at 0.95 at most "
        f"{probed.upper_bound:.4f} of such attacks are; {probed.num_errors} without a number"
    )
    if probed.num_left_out:
        screen.say(
            f"{probed.num_left_out} tasks are judged by what the environment left, and were not attacked by text"
        )
    for task, kind, text in probed.paid:
        screen.say(f"  paid: {kind} on {task}: {text!r}")
