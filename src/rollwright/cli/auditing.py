"""`audit`: how often a verifier pays for what is wrong, on labeled cases or on the trajectories of a run."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, Screen, interval

if TYPE_CHECKING:
    from rollwright.recipes.audits.of_cases import CaseAudit, Mistake
    from rollwright.statistics.confusion import Confusion

__all__ = ["audit"]


class FailOn(StrEnum):
    """What may end a command with exit code 1."""

    FALSE_ACCEPTS = "false_accepts"
    FALSE_REJECTS = "false_rejects"
    ERRORS = "errors"


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="VERIFIER|RUN",
            help="With --cases a verifier: one that ships, or `package.module:name`. Without, a run folder.",
            show_default=False,
        ),
    ],
    *,
    cases: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Labeled cases, one JSON object a line.", show_default=False)
    ] = None,
    success_at: Annotated[float, typer.Option(help="The value from which an answer counts as accepted.")] = 1.0,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(help="End with exit code 1 where there is any of these. Repeatable.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Say how often a verifier pays for what is wrong, and refuses what is right.

    On labeled cases: a confusion matrix with Wilson intervals, overall and by kind, and every mistake by its id. A
    case without a judgement is an error, never an accept or a reject.

    ```
    rollwright audit math --cases cases.jsonl
    rollwright audit my_package.grading:strict --cases cases.jsonl --fail-on false_accepts --json
    ```
    """
    from rollwright.recipes.audits.of_cases import CasesOrder, audit_cases

    screen = open_screen(json)
    import_from_here()
    if cases is None:
        raise typer.BadParameter("give labeled cases by --cases FILE")
    found = audit_cases(CasesOrder(verifier=target, cases=cases, success_at=success_at))
    _show_cases(found, screen)
    counts = {"false_accepts": found.false_accepts, "false_rejects": found.false_rejects, "errors": found.errors}
    if any(counts[name] for name in fail_on or ()):
        raise typer.Exit(FAILED)


def _show_cases(found: "CaseAudit", screen: Screen) -> None:
    mistakes = (
        ("false_accept", found.false_accepts),
        ("false_reject", found.false_rejects),
        ("error", found.errors),
    )
    if isinstance(screen, JsonScreen):
        for what, some in mistakes:
            for one in some:
                print_json({"event": what, **_mistake(one)})
        print_json(_summary(found))
        return
    rows = [(kind or "(none)", *_row(counts)) for kind, counts in found.by_kind.items()]
    columns = (
        "kind",
        "cases",
        "right",
        "wrong",
        "errors",
        "false accepts",
        "of the wrong",
        "false rejects",
        "of the right",
    )
    screen.table(columns, [*rows, ("all", *_row(found.overall))], title=f"{found.verifier} (revision {found.revision})")
    for what, some in mistakes:
        for one in some:
            kind, note = one.case.kind or "(no kind)", f" ({one.case.note})" if one.case.note else ""
            screen.say(f"{what.replace('_', ' ')}: {one.case.id}, {kind}{note}: {_why(one)}")
    screen.say(f"{found.overall.num} cases in {found.seconds:.1f} s")


def _row(counts: "Confusion") -> Sequence[object]:
    accepted, rejected = counts.false_accept_interval(), counts.false_reject_interval()
    return (
        counts.num,
        counts.num_right,
        counts.num_wrong,
        counts.errors,
        counts.false_accepts,
        interval(counts.false_accept_rate, accepted.low, accepted.high),
        counts.false_rejects,
        interval(counts.false_reject_rate, rejected.low, rejected.high),
    )


def _why(one: "Mistake") -> str:
    said = " ".join(one.said.evidence.split())
    return f"{one.said.outcome}{f' [{one.said.finding}]' if one.said.finding else ''} {said}".strip()


def _mistake(one: "Mistake") -> dict[str, object]:
    return {
        "id": one.case.id,
        "line": one.case.line,
        "kind": one.case.kind,
        "note": one.case.note,
        "label": one.case.is_right,
        "outcome": one.said.outcome,
        "finding": one.said.finding,
        "evidence": one.said.evidence,
    }


def _summary(found: "CaseAudit") -> dict[str, object]:
    return {
        "verifier": found.verifier,
        "revision": found.revision,
        **_counts(found.overall),
        "false_accept_ids": [one.case.id for one in found.false_accepts],
        "false_reject_ids": [one.case.id for one in found.false_rejects],
        "error_ids": [one.case.id for one in found.errors],
        "by_kind": {kind: _counts(counts) for kind, counts in found.by_kind.items()},
        "seconds": round(found.seconds, 3),
    }


def _counts(counts: "Confusion") -> dict[str, object]:
    accepted, rejected = counts.false_accept_interval(), counts.false_reject_interval()
    return {
        "cases": counts.num,
        "true_accepts": counts.true_accepts,
        "false_accepts": counts.false_accepts,
        "true_rejects": counts.true_rejects,
        "false_rejects": counts.false_rejects,
        "errors": counts.errors,
        "false_accept_rate": {"value": counts.false_accept_rate, "low": accepted.low, "high": accepted.high},
        "false_reject_rate": {"value": counts.false_reject_rate, "low": rejected.low, "high": rejected.high},
        "level": accepted.level,
    }
