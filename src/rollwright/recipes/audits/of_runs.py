"""What the trajectories of a run tell of its verifiers: a person's labels, a second verifier, repetition, attacks."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.recipes.audits.judging import Judgement
from rollwright.recipes.audits.naming import open_verifier
from rollwright.recipes.audits.sheets import audits_of_labels, read_labels, write_sheet
from rollwright.recipes.audits.stored import AuditedRun, JudgedRow, with_final_text
from rollwright.record import Submission, Task
from rollwright.statistics import Interval, cohen_kappa, wilson_interval
from rollwright.statistics.confusion import Judged
from rollwright.statistics.verifier_audit import (
    MetamorphicGap,
    VerifierAudit,
    VerifierErrors,
    exact_upper_bound,
    metamorphic_gap,
    stratified_errors,
)
from rollwright.tasks import Payload, TaskError, payload_of
from rollwright.verifiers.metamorphic import TRANSFORMS, Transform
from rollwright.verifiers.probes import Probe, answer_probes, program_probes

__all__ = ["Disagreement", "Flakiness", "Labeled", "Probed", "Retold", "RunAudit", "RunOrder", "audit_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What was asked for; what is None, 0 or False is left out."""

    run: Path
    sample: int = 40
    seed: int = 0
    sheet: Path | None = None
    labels: Path | None = None
    against: str | None = None
    repeat: int = 0
    is_perturbed: bool = False
    is_probed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeled:
    """Error rates by the labels of a person (M121)."""

    num: int
    overall: VerifierErrors
    by_source: Mapping[str, VerifierErrors]
    counts: Mapping[str, VerifierAudit]
    """By source: what was accepted and rejected, how much of it is labeled, and how much of that is mistaken."""
    false_accepts: tuple[str, ...]
    """Accepted by the run, and labeled wrong."""
    false_rejects: tuple[str, ...]
    """Rejected by the run, and labeled right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The run's verifiers beside a second one, over trajectories that both gave a number."""

    verifier: str
    num: int
    num_errors: int
    """No number from the second."""
    rate: Interval
    kappa: float | None
    run_alone: tuple[str, ...]
    """Accepted by the run and not by the second."""
    other_alone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flakiness:
    """The same trajectories judged several times."""

    num: int
    repeats: int
    rate: Interval
    flaky: tuple[str, ...]
    """More than one outcome, an error among them included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retold:
    """One way of telling tasks anew (M122)."""

    transform: str
    kind: str
    num: int
    gap: MetamorphicGap
    lost: tuple[str, ...]
    """Accepted on the task, and not on the same task told anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Attacks on the run's verifiers, on the run's tasks (M123)."""

    num: int
    """Attacks that were judged."""
    num_errors: int
    num_tasks: int
    num_left_out: int
    """Tasks that are judged by what an environment left behind: text is no attack on those."""
    by_kind: Mapping[str, int]
    paid: tuple[tuple[str, str, str], ...]
    """Task, kind and text of each attack that was paid."""
    upper_bound: float
    """Of the share of such attacks that are paid, at 0.95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAudit:
    """What was found; None where it was not asked for."""

    run: str
    success_at: float
    """The reward from which a trajectory counts as accepted."""
    num_unjudged: int
    """Trajectories of training and evaluation without a reward: in none of the other numbers."""
    num_accepted: int
    num_rejected: int
    by_source: Mapping[str, tuple[int, int]]
    """Accepted and rejected of each."""
    sheet: str | None
    num_sampled: int
    num_sampled_accepted: int
    labeled: Labeled | None
    disagreement: Disagreement | None
    flakiness: Flakiness | None
    retold: tuple[Retold, ...] | None
    probed: Probed | None
    seconds: float


def audit_run(order: RunOrder) -> RunAudit:
    """Look at the verifiers of a run.

    Raises:
        RecipeError: for a sheet, a label or a verifier that cannot be used.
        EvidenceError: where the folder is no run.
    """
    started = time.monotonic()
    with AuditedRun(order.run) as run:
        rows = run.sample(order.sample, order.seed)
        submissions = run.submissions(rows)
        if order.sheet is not None:
            write_sheet(order.sheet, rows, submissions)
        labeled = _labeled(run, order.labels) if order.labels is not None else None
        disagreement = _disagreement(run, rows, submissions, order.against) if order.against is not None else None
        flakiness = _flakiness(run, rows, submissions, order.repeat) if order.repeat > 1 else None
        retold = _retold(run, rows, submissions, order.seed) if order.is_perturbed else None
        probed = _probed(run, submissions) if order.is_probed else None
        return RunAudit(
            run=str(order.run),
            success_at=run.threshold,
            num_unjudged=run.num_unjudged,
            num_accepted=sum(row.is_accepted for row in run.rows),
            num_rejected=sum(not row.is_accepted for row in run.rows),
            by_source=_by_source(run.rows),
            sheet=None if order.sheet is None else str(order.sheet),
            num_sampled=len(rows),
            num_sampled_accepted=sum(row.is_accepted for row in rows),
            labeled=labeled,
            disagreement=disagreement,
            flakiness=flakiness,
            retold=retold,
            probed=probed,
            seconds=time.monotonic() - started,
        )


def _by_source(rows: Sequence[JudgedRow]) -> Mapping[str, tuple[int, int]]:
    counts = Counter((row.source, row.is_accepted) for row in rows)
    return {source: (counts[source, True], counts[source, False]) for source in sorted({row.source for row in rows})}


def _labeled(run: AuditedRun, path: Path) -> Labeled:
    labels = read_labels(path)
    audits = audits_of_labels(run, labels)
    return Labeled(
        num=len(labels),
        overall=stratified_errors(tuple(audits.values())),
        by_source={source: audit.errors() for source, audit in audits.items()},
        counts=audits,
        false_accepts=_labeled_as(run, labels, is_accepted=True),
        false_rejects=_labeled_as(run, labels, is_accepted=False),
    )


def _labeled_as(run: AuditedRun, labels: Mapping[str, bool], *, is_accepted: bool) -> tuple[str, ...]:
    """Those on which the label is not what the run said."""
    return tuple(
        row.trajectory_id
        for row in run.rows
        if row.is_accepted is is_accepted and labels.get(row.trajectory_id, is_accepted) is not is_accepted
    )


def _disagreement(
    run: AuditedRun, rows: Sequence[JudgedRow], submissions: Sequence[Submission], name: str
) -> Disagreement:
    said = run.judge(open_verifier(name, run.stack, rule=run.rule), submissions)
    both = [(row, one.judged is Judged.ACCEPTED) for row, one in zip(rows, said, strict=True) if _is_number(one)]
    run_alone = tuple(row.trajectory_id for row, accepts in both if row.is_accepted and not accepts)
    other_alone = tuple(row.trajectory_id for row, accepts in both if accepts and not row.is_accepted)
    return Disagreement(
        verifier=name,
        num=len(both),
        num_errors=len(rows) - len(both),
        rate=wilson_interval(len(run_alone) + len(other_alone), len(both)),
        kappa=cohen_kappa([(row.is_accepted, accepts) for row, accepts in both]),
        run_alone=run_alone,
        other_alone=other_alone,
    )


def _flakiness(
    run: AuditedRun, rows: Sequence[JudgedRow], submissions: Sequence[Submission], repeats: int
) -> Flakiness:
    said = [run.judge(run.composition(), submissions) for _ in range(repeats)]
    flaky = tuple(
        row.trajectory_id
        for row, outcomes in zip(rows, zip(*said, strict=True), strict=True)
        if len({one.outcome for one in outcomes}) > 1
    )
    return Flakiness(num=len(rows), repeats=repeats, rate=wilson_interval(len(flaky), len(rows)), flaky=flaky)


def _retold(
    run: AuditedRun, rows: Sequence[JudgedRow], submissions: Sequence[Submission], seed: int
) -> tuple[Retold, ...]:
    """Every transform over the trajectories whose task it changes; the originals are judged again beside them."""
    found: list[Retold] = []
    for transform in TRANSFORMS:
        changed = [
            (row, s, told) for row, s in zip(rows, submissions, strict=True) if (told := _told(transform, s, seed))
        ]
        if not changed:
            continue
        before = run.judge(run.composition(), [submission for _, submission, _ in changed])
        after = run.judge(run.composition(), [told for _, _, told in changed])
        pairs = [
            (row, float(a.outcome), float(b.outcome))
            for (row, _, _), a, b in zip(changed, before, after, strict=True)
            if not isinstance(a.outcome, str) and not isinstance(b.outcome, str)
        ]
        found.append(
            Retold(
                transform=transform.name,
                kind=transform.kind,
                num=len(pairs),
                gap=metamorphic_gap([a for _, a, _ in pairs], [b for _, _, b in pairs], success_at=run.threshold),
                lost=tuple(row.trajectory_id for row, a, b in pairs if a >= run.threshold > b),
            )
        )
    return tuple(found)


def _told(transform: Transform, submission: Submission, seed: int) -> Submission | None:
    """The submission to the task told anew; None where there is nothing to change, or what was left would not fit."""
    if submission.artifacts:
        return None
    try:
        variant = transform.apply(submission.task, seed)
    except (TaskError, ValueError):
        return None
    return None if variant is None else with_final_text(submission, variant.carry, task=variant.task)


def _probed(run: AuditedRun, submissions: Sequence[Submission]) -> Probed:
    tasks: dict[str, Task] = {}
    left_out: set[str] = set()
    attacks: list[tuple[Probe, Submission]] = []
    for submission in submissions:
        name = submission.task.task_id
        if submission.artifacts:
            left_out.add(name)
        elif name not in tasks:
            tasks[name] = submission.task
            attacks += [(probe, _attack(submission, probe)) for probe in _probes(submission.task, run.answer_form)]
    said = run.judge(run.composition(), [attack for _, attack in attacks])
    judged = [(probe, attack, one) for (probe, attack), one in zip(attacks, said, strict=True) if _is_number(one)]
    paid = tuple(
        (attack.task.task_id, probe.kind, probe.text[:200])
        for probe, attack, one in judged
        if one.judged is Judged.ACCEPTED
    )
    return Probed(
        num=len(judged),
        num_errors=len(attacks) - len(judged),
        num_tasks=len(tasks),
        num_left_out=len(left_out),
        by_kind=dict(sorted(Counter(probe.kind for probe, _, _ in judged).items())),
        paid=paid,
        upper_bound=exact_upper_bound(len(paid), len(judged)),
    )


def _probes(task: Task, form: str) -> tuple[Probe, ...]:
    try:
        payload: Payload = payload_of(task)
    except (TaskError, ValueError):
        return ()
    if "tests" in payload.info:
        return program_probes(payload.text("entry_point"))
    return answer_probes(payload, form=form)


def _attack(submission: Submission, probe: Probe) -> Submission:
    return with_final_text(submission, lambda _: probe.text)


def _is_number(one: Judgement) -> bool:
    return one.judged is not Judged.ERROR
