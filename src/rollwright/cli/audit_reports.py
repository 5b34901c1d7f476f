"""The audit of a run, for a machine and for a person: what was counted, of how many, and what can be done next."""

import shlex
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from rollwright.cli.machine import print_json
from rollwright.cli.screen import JsonScreen, PersonScreen, Screen, interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rollwright.recipes.audits.of_runs import Disagreement, Flakiness, Labeled, Probed, Retold, RunAudit
    from rollwright.statistics.verifier_audit import VerifierAudit, VerifierErrors

__all__ = ["show_run"]

_SHOWN_CHARACTERS = 80
"""Of an attack; `--json` gives more of it."""


def show_run(found: "RunAudit", screen: Screen, *, num_kept: int) -> None:
    """One object for a machine; tables and sentences for a person."""
    if isinstance(screen, JsonScreen):
        print_json({**asdict(found), "num_kept": num_kept})
        return
    _show_judged(found, screen)
    if found.sheet is not None:
        screen.say(
            f"sheet: the {_drawn(found)} are written to {found.sheet}, without what the verifiers said. Next: set each "
            f"`label` to true (right) or false (wrong), then `rollwright audit {shlex.quote(found.run)} "
            f"--labels {shlex.quote(found.sheet)}`"
        )
    if found.labeled is not None:
        _show_labeled(found, found.labeled, screen)
    if found.disagreement is not None:
        _show_disagreement(found, found.disagreement, screen)
    if found.flakiness is not None:
        _show_flakiness(found, found.flakiness, screen)
    if found.retold is not None:
        _show_retold(found, found.retold, screen)
    if found.probed is not None:
        _show_probed(found, found.probed, screen)
    if _asked_nothing(found):
        screen.say(
            f"nothing more was asked for. Next: `rollwright audit {shlex.quote(found.run)} --sheet sheet.jsonl` writes "
            f"{found.num_sampled} of them for you to label; --against a second verifier, --repeat 3, --perturb and "
            "--probe look at the verifiers without labels"
        )
    kept = f"{num_kept} metrics are kept behind the steps of the run" if num_kept else "the run is as it was"
    screen.say(f"{found.seconds:.1f} s; {kept}")


def _show_judged(found: "RunAudit", screen: PersonScreen) -> None:
    rows = [(source, sum(counts), *counts) for source, counts in found.by_source.items()]
    num = found.num_accepted + found.num_rejected
    screen.table(
        ("source", "judged", "accepted", "rejected"),
        [*rows, ("all", num, found.num_accepted, found.num_rejected)],
        title=f"trajectories of {found.run}, of training and evaluation",
    )
    screen.say(
        f"{num} of {num + found.num_unjudged} trajectories have a reward and are counted; accepted: a reward of at "
        f"least {found.success_at:g}"
    )


def _asked_nothing(found: "RunAudit") -> bool:
    asked = (found.sheet, found.labeled, found.disagreement, found.flakiness, found.retold, found.probed)
    return all(one is None for one in asked)


def _drawn(found: "RunAudit") -> str:
    accepted, num = found.num_sampled_accepted, found.num_sampled
    judged = found.num_accepted + found.num_rejected
    return f"{num} trajectories that were drawn of {judged} ({accepted} accepted, {num - accepted} rejected)"


def _read(found: "RunAudit", name: str) -> str:
    sql = f"SELECT verifier, value, evidence FROM verdicts WHERE trajectory_id = '{name}'"
    return f'`rollwright query {shlex.quote(found.run)} "{sql}"`'


def _names(what: str, names: "Sequence[str]", screen: PersonScreen) -> None:
    for name in names:
        screen.say(f"  {what}: {name}")


def _show_labeled(found: "RunAudit", labeled: "Labeled", screen: PersonScreen) -> None:
    rows = [
        row for source, errors in labeled.by_source.items() for row in _rows(source, [labeled.counts[source]], errors)
    ]
    screen.table(
        ("source", "verdict", "in the run", "labeled", "mistaken", "share mistaken", "about, in the run"),
        [*rows, *_rows("all", list(labeled.counts.values()), labeled.overall)],
        title=f"verdicts of the run beside {labeled.num} labels",
    )
    judged = found.num_accepted + found.num_rejected
    if labeled.overall.sensitivity is None or labeled.overall.false_positive_rate is None:
        screen.say(
            "the pass rate behind the verdicts is undefined: it needs labels of accepted and of rejected trajectories. "
            "Next: label more lines of the sheet"
        )
    elif labeled.overall.corrected_pass_rate is None:
        screen.say(
            "the pass rate behind the verdicts is undefined: by these labels the verifiers tell right from wrong no "
            "better than chance"
        )
    else:
        screen.say(
            f"pass rate: the verifiers accept {found.num_accepted} of {judged} ({found.num_accepted / judged:.3f}); by "
            f"these labels about {labeled.overall.corrected_pass_rate:.3f} are right"
        )
    _names("accepted, and labeled wrong", labeled.false_accepts, screen)
    _names("rejected, and labeled right", labeled.false_rejects, screen)
    if mistaken := (*labeled.false_accepts, *labeled.false_rejects):
        screen.say(f"next: read why, {_read(found, mistaken[0])}, and mend the verifier")


def _rows(source: str, counts: "Sequence[VerifierAudit]", errors: "VerifierErrors") -> "list[tuple[object, ...]]":
    """The accepted, then the rejected."""
    accepted, rejected = errors.false_accepts, errors.false_rejects
    looked, wrong = sum(one.audited_accepted for one in counts), sum(one.false_accepts for one in counts)
    seen, right = sum(one.audited_rejected for one in counts), sum(one.false_rejects for one in counts)
    return [
        (
            source,
            "accepted",
            sum(one.accepted for one in counts),
            looked,
            wrong,
            interval(wrong / looked if looked else None, accepted.low, accepted.high),
            errors.false_positives,
        ),
        (
            source,
            "rejected",
            sum(one.rejected for one in counts),
            seen,
            right,
            interval(right / seen if seen else None, rejected.low, rejected.high),
            errors.false_negatives,
        ),
    ]


def _show_disagreement(found: "RunAudit", other: "Disagreement", screen: PersonScreen) -> None:
    kappa = "undefined" if other.kappa is None else f"{other.kappa:.3f}"
    apart = (*other.run_alone, *other.other_alone)
    screen.say(
        f"against {other.verifier}: it gave a number for {other.num} of the {_drawn(found)}; on {len(apart)} of these "
        f"{other.num} the two disagree, {interval(_share(len(apart), other.num), other.rate.low, other.rate.high)}; "
        f"kappa {kappa} (1: they always agree, 0: no more than by chance)"
    )
    _names(f"accepted by the run, not by {other.verifier}", other.run_alone, screen)
    _names(f"accepted by {other.verifier}, not by the run", other.other_alone, screen)
    if apart:
        screen.say(f"next: read what the run's verifiers say, {_read(found, apart[0])}, and mend the one that is wrong")


def _show_flakiness(found: "RunAudit", again: "Flakiness", screen: PersonScreen) -> None:
    share = interval(_share(len(again.flaky), again.num), again.rate.low, again.rate.high)
    screen.say(
        f"judged {again.repeats} times each: on {len(again.flaky)} of the {_drawn(found)} the outcome changed, {share}"
    )
    _names("another outcome", again.flaky, screen)
    if again.flaky:
        screen.say("next: find what the verifier draws, or which limit it meets; a reward that changes is noise")


def _show_retold(found: "RunAudit", retold: "tuple[Retold, ...]", screen: PersonScreen) -> None:
    if not retold:
        screen.say(
            f"tasks told anew: 0 of the {_drawn(found)} could be, as none of these tasks names entities, options, "
            "items or examples to change. Next: name them in the tasks (`info.entities`)"
        )
        return
    rows = [(one.transform, one.kind, one.num, one.gap.hack_gap, len(one.lost), one.gap.failure_rate) for one in retold]
    screen.table(
        ("told anew by", "kind", "pairs judged", "hack gap", "no longer accepted", "share of the accepted"),
        rows,
        title=f"tasks told anew, of the {_drawn(found)}",
    )
    for one in retold:
        _names(f"{one.transform}, no longer accepted", one.lost, screen)
    if lost := [name for one in retold for name in one.lost]:
        screen.say(f"next: see what the verifier held on to, {_read(found, lost[0])}")


def _show_probed(found: "RunAudit", probed: "Probed", screen: PersonScreen) -> None:
    paid = Counter(kind for _, kind, _ in probed.paid)
    screen.say(
        f"attacks: {len(probed.paid)} of {probed.num} that were judged were paid, on {probed.num_tasks} tasks of the "
        f"{_drawn(found)}; at 0.95 at most {probed.upper_bound:.4f} of such attacks are; {probed.num_errors} more got "
        "no number"
    )
    if probed.num_left_out:
        screen.say(
            f"{probed.num_left_out} tasks are judged by what the environment left, and were not attacked by text; "
            "`rollwright env check` plays the attacks of their world"
        )
    examples: Mapping[str, tuple[str, str]] = {kind: (task, text) for task, kind, text in reversed(probed.paid)}
    for kind, num in paid.most_common():
        task, text = examples[kind]
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        screen.say(f"  paid: {kind}, {num} of {probed.by_kind[kind]}, such as {shown!r} on {task}")
    if probed.paid:
        screen.say(
            "next: mend the verifier, keep these attacks as labeled cases (`rollwright audit VERIFIER --cases FILE`); "
            "--json has all of them"
        )


def _share(num: int, of: int) -> float | None:
    return num / of if of else None
