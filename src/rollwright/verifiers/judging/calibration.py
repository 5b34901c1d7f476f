"""A judge against labels: how often it agrees, by set; and whether it has drifted since it was last looked at.

labeled cases (versioned by digest) ──► the judge ──► report ──► the limits: used, or refused with the numbers
                                                         └─────► the report of another day: drift
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.record import Message, Passage, Submission, Verdict, Verifier, canonical_json, digest
from rollwright.statistics import Interval, brier_score, cohen_kappa, wilson_interval
from rollwright.tasks import Json, Payload, make_task, read_json
from rollwright.verifiers.errors import VerifierSetupError

__all__ = [
    "Agreement",
    "CalibrationCase",
    "CalibrationLimits",
    "CalibrationReport",
    "CalibrationSet",
    "JudgeRefusedError",
    "calibrate",
    "read_calibration",
    "refuse_drifted",
    "refuse_miscalibrated",
]


class JudgeRefusedError(VerifierSetupError):
    """A judge that must not give rewards: it disagrees with its labels, has drifted, or is biased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCase:
    """An answer whose grade a person has given."""

    question: str
    answer: str
    """The task's own, where the judge may see one."""
    completion: str
    label: bool
    """Whether the completion is good."""
    stratum: str = "easy"
    """A set that is reported apart, such as `hard`."""
    info: Mapping[str, Json] | None = None
    """Of the task: a rubric, fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSet:
    """Cases in order; the digest of their content is the set's version."""

    cases: tuple[CalibrationCase, ...]

    @property
    def version(self) -> str:
        """Equal for equal cases."""
        return digest([_plain(case) for case in self.cases])[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A judge against the labels of one set."""

    num: int
    """Cases with a number; the others are `num_errors`."""
    num_errors: int
    false_accepts: int
    false_rejects: int
    accuracy: Interval
    """Wilson's, of the share that agrees with its label."""
    kappa: float | None
    brier: float | None
    """Of the judge's value as a chance that the label is true; None where a value lies outside 0 to 1."""

    @property
    def share(self) -> float | None:
        """Agreeing cases of those with a number."""
        return None if self.num == 0 else (self.num - self.false_accepts - self.false_rejects) / self.num


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """One judge over one version of a set."""

    verifier: str
    revision: str
    set_version: str
    strata: Mapping[str, Agreement]
    """By name of the set; `all` is the whole."""

    def to_json(self) -> str:
        """To be kept, and compared with on another day."""
        strata: dict[str, Json] = {
            name: {"num": a.num, "num_errors": a.num_errors, "share": a.share, "kappa": a.kappa, "brier": a.brier}
            for name, a in self.strata.items()
        }
        return canonical_json(
            {"verifier": self.verifier, "revision": self.revision, "set_version": self.set_version, "strata": strata}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationLimits:
    """What a judge must keep to give rewards."""

    min_share: float = 0.8
    """Of agreeing cases in every set."""
    max_errors: float = 0.1
    """Share of cases without a number, in every set."""
    max_drift: float = 0.05
    """How far the share of a set may lie from the kept one."""


async def calibrate(
    verifier: Verifier, cases: CalibrationSet, *, threshold: float = 0.5, level: float = 0.95
) -> CalibrationReport:
    """Ask a judge about labeled cases.

    Args:
        verifier: of scope trajectory.
        cases: at least one.
        threshold: a value of at least this accepts.
        level: of the intervals.

    Raises:
        VerifierSetupError: without cases, or for a grader of groups.
    """
    if not cases.cases or verifier.scope != "trajectory":
        raise VerifierSetupError(
            f"calibration takes cases and a verifier of trajectories, not {len(cases.cases)} cases"
        )
    submissions = [_submission(case, number) for number, case in enumerate(cases.cases)]
    async with asyncio.timeout(verifier.deadline_s * len(submissions)):
        verdicts = await verifier.verify(submissions)
    by_stratum: defaultdict[str, list[tuple[CalibrationCase, Verdict]]] = defaultdict(list)
    for case, verdict in zip(cases.cases, verdicts, strict=True):
        by_stratum[case.stratum].append((case, verdict))
    by_stratum["all"] = list(zip(cases.cases, verdicts, strict=True))
    return CalibrationReport(
        verifier=verifier.name,
        revision=verifier.revision,
        set_version=cases.version,
        strata={name: _agreement(found, threshold, level) for name, found in sorted(by_stratum.items())},
    )


def refuse_miscalibrated(report: CalibrationReport, limits: CalibrationLimits) -> None:
    """Stop a judge that disagrees with its labels.

    Raises:
        JudgeRefusedError: naming each set and its numbers.
    """
    broken: list[str] = []
    for name, found in report.strata.items():
        whole = found.num + found.num_errors
        if found.num_errors > limits.max_errors * whole:
            broken.append(f"{found.num_errors} of {whole} cases of set {name} got no number")
        if found.share is None or found.share < limits.min_share:
            low, high = found.accuracy.low, found.accuracy.high
            said = "none" if found.share is None else f"{found.share:.3f} [{low:.3f}, {high:.3f}]"
            broken.append(f"it agrees with {said} of set {name}, and {limits.min_share:g} is needed")
    if broken:
        raise JudgeRefusedError(
            f"judge {report.verifier} (revision {report.revision}) on calibration set {report.set_version}: "
            f"{'; '.join(broken)}. Mend its prompt, take another judge, or label more cases"
        )


def refuse_drifted(report: CalibrationReport, kept: str, limits: CalibrationLimits) -> None:
    """Stop a judge that no longer grades as it did.

    Args:
        report: of today.
        kept: `CalibrationReport.to_json` of an earlier day.
        limits: how much may change.

    Raises:
        JudgeRefusedError: where a set's share moved beyond the limit, or the cases are others.
    """
    before = json.loads(kept)
    if before["set_version"] != report.set_version:
        raise JudgeRefusedError(
            f"the kept report is of calibration set {before['set_version']} and today's of {report.set_version}: they "
            "cannot be compared. Calibrate anew on purpose, and keep that report"
        )
    moved: list[str] = []
    for name, found in report.strata.items():
        was = before["strata"][name]["share"]
        if was is None or found.share is None or abs(found.share - was) > limits.max_drift:
            moved.append(f"set {name} from {was} to {found.share}")
    if moved:
        raise JudgeRefusedError(
            f"judge {report.verifier} has drifted by more than {limits.max_drift:g}: {'; '.join(moved)} (revision "
            f"{before['revision']}, now {report.revision}). Look at what it says, then calibrate anew"
        )


def read_calibration(path: Path) -> CalibrationSet:
    """Cases of a JSONL file: `{"task": {"question": …, "answer": …}, "completion": …, "label": true, "kind": …}`.

    Raises:
        VerifierSetupError: naming the line that is none.
    """
    cases: list[CalibrationCase] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            cases.append(_case(line, f"{path}, line {number}"))
    return CalibrationSet(cases=tuple(cases))


def _case(line: str, where: str) -> CalibrationCase:
    try:
        row = read_json(line)
    except ValueError as error:
        raise VerifierSetupError(f"{where} is no JSON: {error}") from error
    task = row.get("task") if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping) or not isinstance(task, Mapping):
        raise VerifierSetupError(f"{where} has no `task`; a case has task, completion, label and, if wanted, kind")
    question, answer = task.get("question"), task.get("answer")
    completion, label, kind, info = row.get("completion"), row.get("label"), row.get("kind", "easy"), task.get("info")
    if not isinstance(question, str) or not isinstance(answer, str) or not isinstance(completion, str):
        raise VerifierSetupError(f"{where}: task.question, task.answer and completion are texts")
    if not isinstance(label, bool) or not isinstance(kind, str):
        raise VerifierSetupError(f"{where}: label is true or false, and kind a text")
    return CalibrationCase(
        question=question,
        answer=answer,
        completion=completion,
        label=label,
        stratum=kind,
        info=info if isinstance(info, Mapping) else None,
    )


def _submission(case: CalibrationCase, number: int) -> Submission:
    payload = Payload(
        messages=(Message(role="user", text=case.question),), answer=case.answer, info=dict(case.info or {})
    )
    return Submission(
        trajectory_id=f"c{number:06d}",
        task=make_task(payload, source="calibration", revision="1", split="calibration"),
        terminal_reason="model_end",
        passages=(Passage(actor="agent", kind="policy", text=case.completion),),
        artifacts={},
    )


def _agreement(found: Sequence[tuple[CalibrationCase, Verdict]], threshold: float, level: float) -> Agreement:
    known = [(case.label, v.outcome) for case, v in found if not isinstance(v.outcome, str)]
    pairs = [(label, value >= threshold) for label, value in known]
    right = sum(label == accepted for label, accepted in pairs)
    are_chances = all(0.0 <= value <= 1.0 for _, value in known)
    return Agreement(
        num=len(known),
        num_errors=len(found) - len(known),
        false_accepts=sum(accepted and not label for label, accepted in pairs),
        false_rejects=sum(label and not accepted for label, accepted in pairs),
        accuracy=wilson_interval(right, len(pairs), level=level),
        kappa=cohen_kappa(pairs),
        brier=brier_score([value for _, value in known], [label for label, _ in known]) if are_chances else None,
    )


def _plain(case: CalibrationCase) -> list[Json]:
    return [case.question, case.answer, case.completion, case.label, case.stratum, case.info]
