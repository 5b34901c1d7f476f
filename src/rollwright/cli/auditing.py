"""`audit`: how often a verifier pays for what is wrong, on labeled cases or on the trajectories of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    PAID_PROBES = "paid_probes"


_OF_CASES = "On labeled cases"
_OF_RUNS = "On a run"


Target = Annotated[
    str,
    typer.Argument(
        metavar="VERIFIER|RUN",
        help="With --cases a verifier: one that ships, or `package.module:name`. Without, a run folder.",
        show_default=False,
    ),
]
Cases = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Labeled cases, one JSON object a line.",
        show_default=False,
        rich_help_panel=_OF_CASES,
    ),
]
SuccessAt = Annotated[
    float, typer.Option(help="The value from which an answer counts as accepted.", rich_help_panel=_OF_CASES)
]
Sample = Annotated[
    int, typer.Option(min=1, max=100_000, help="Trajectories that are looked at.", rich_help_panel=_OF_RUNS)
]
SampleSeed = Annotated[int, typer.Option(help="Of the sample.", rich_help_panel=_OF_RUNS)]
Sheet = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Write the sample to this file, for a person to label.",
        show_default=False,
        rich_help_panel=_OF_RUNS,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="A labeled sheet: error rates and the pass rate behind them.",
        show_default=False,
        rich_help_panel=_OF_RUNS,
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|MODULE:NAME",
        help="A second verifier: where do the two disagree?",
        show_default=False,
        rich_help_panel=_OF_RUNS,
    ),
]
Repeat = Annotated[
    int, typer.Option(min=0, max=1000, help="Judge the sample so often: what changes?", rich_help_panel=_OF_RUNS)
]
Perturb = Annotated[
    bool,
    typer.Option("--perturb", help="Tell the tasks anew: what is still accepted?", rich_help_panel=_OF_RUNS),
]
Probe = Annotated[bool, typer.Option("--probe", help="Attack the verifiers on these tasks.", rich_help_panel=_OF_RUNS)]
Keep = Annotated[
    bool,
    typer.Option("--keep", help="Keep the numbers in the run, as metrics behind its steps.", rich_help_panel=_OF_RUNS),
]
FailOns = Annotated[
    list[FailOn] | None,
    typer.Option(help="End with exit code 1 where there is any of these. Repeatable.", show_default=False),
]


def audit(  # noqa: PLR0913 - each parameter is an option that a person may give
    target: Target,
    *,
    cases: Cases = None,
    success_at: SuccessAt = 1.0,
    sample: Sample = 40,
    seed: SampleSeed = 0,
    sheet: Sheet = None,
    labels: Labels = None,
    against: Against = None,
    repeat: Repeat = 0,
    is_perturbed: Perturb = False,
    is_probed: Probe = False,
    keep: Keep = False,
    fail_on: FailOns = None,
    json: Json = False,
) -> None:
    """Say how often a verifier pays for what is wrong, and refuses what is right.

    On labeled cases: a confusion matrix with Wilson intervals, overall and by kind, and every mistake by its id. A
    case without a judgement is an error, never an accept or a reject. On a run: a sheet for a person to label and what
    the labels say, a second verifier, repetition, tasks told anew, and attacks.

    ```
    rollwright audit math --cases cases.jsonl
    rollwright audit my_package.grading:strict --cases cases.jsonl --fail-on false_accepts --json
    rollwright audit runs/arithmetic-tool-seed0 --sheet sheet.jsonl --sample 60
    rollwright audit runs/arithmetic-tool-seed0 --labels sheet.jsonl --against math --repeat 3 --perturb --probe
    ```
    """
    screen = open_screen(json)
    import_from_here()
    fails = set(fail_on or ())
    if cases is not None:
        if sheet or labels or against or repeat or is_perturbed or is_probed or keep:
            raise typer.BadParameter("--cases audits a verifier; the options of a run go with a run folder alone")
        is_bad = _audit_cases(target, cases, success_at, screen, fails)
    else:
        order = _RunOptions(
            run=target, sample=sample, seed=seed, sheet=sheet, labels=labels, against=against, repeat=repeat, keep=keep
        )
        is_bad = _audit_run(order, screen, fails, is_perturbed=is_perturbed, is_probed=is_probed)
    if is_bad:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunOptions:
    """As they were given."""

    run: str
    sample: int
    seed: int
    sheet: Path | None
    labels: Path | None
    against: str | None
    repeat: int
    keep: bool


def _audit_cases(target: str, cases: Path, success_at: float, screen: Screen, fails: set[FailOn]) -> bool:
    from rollwright.recipes.audits.of_cases import CasesOrder, audit_cases

    found = audit_cases(CasesOrder(verifier=target, cases=cases, success_at=success_at))
    _show_cases(found, screen)
    counts = {
        FailOn.FALSE_ACCEPTS: found.false_accepts,
        FailOn.FALSE_REJECTS: found.false_rejects,
        FailOn.ERRORS: found.errors,
    }
    return any(counts[name] for name in fails if name in counts)


def _audit_run(
    options: _RunOptions, screen: Screen, fails: set[FailOn], *, is_perturbed: bool, is_probed: bool
) -> bool:
    from rollwright.cli.audit_reports import show_run
    from rollwright.recipes.audits.kept import keep_audit
    from rollwright.recipes.audits.of_runs import RunOrder, audit_run
    from rollwright.recipes.build.named_verifiers import VERIFIER_NAMES

    if options.run in VERIFIER_NAMES or (":" in options.run and not Path(options.run).exists()):
        raise typer.BadParameter(f"{options.run} is a verifier; give labeled cases by --cases FILE")
    if options.repeat == 1:
        raise typer.BadParameter("judged once, nothing can change; give --repeat at least 2")
    found = audit_run(
        RunOrder(
            run=Path(options.run),
            sample=options.sample,
            seed=options.seed,
            sheet=options.sheet,
            labels=options.labels,
            against=options.against,
            repeat=options.repeat,
            is_perturbed=is_perturbed,
            is_probed=is_probed,
        )
    )
    show_run(found, screen, num_kept=keep_audit(Path(options.run), found) if options.keep else 0)
    return FailOn.PAID_PROBES in fails and found.probed is not None and bool(found.probed.paid)


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
