"""Whether the verdicts that a run keeps are those that its tables give."""

from collections.abc import Iterator
from pathlib import Path

from rollwright.evaluation.gates import judge
from rollwright.evaluation.gates_declared import AuditSubject, KeptAuditSubject
from rollwright.evaluation.gates_of_runs import judge_run
from rollwright.evidence import EvidenceError, Finding
from rollwright.evidence.gates import GateRecord, read_gates
from rollwright.record.gates import GateVerdict

__all__ = ["check_gates"]


def check_gates(path: Path) -> tuple[Finding, ...]:
    """Judge again what `gates.json` says of the run's gates.

    What an audit said may have been added to since, and where there was no number there may be one now: neither is
    a fault.

    Args:
        path: a run folder whose tables are sound.
    """
    try:
        kept = [one for one in read_gates(path) if one.purpose in ("run", "promotion")]
        return tuple(finding for step in sorted({one.step for one in kept}) for finding in _of_step(path, kept, step))
    except EvidenceError as error:
        return (Finding(place="gates.json", text=str(error), concern="evaluations"),)


def _of_step(path: Path, kept: list[GateRecord], step: int) -> Iterator[Finding]:
    again = {one.gate.name: one for one in judge_run(path, step, verification="sizes")}
    for record in (one for one in kept if one.step == step):
        place = f"gates.json, {record.purpose} at step {step}, gate {record.verdict.gate}"
        judged = again.get(record.verdict.gate)
        if judged is None:
            yield Finding(place=place, text="the run was begun without such a gate", concern="evaluations")
        elif record.verdict.outcome != judge(judged.gate.name, judged.gate.bound, record.verdict.measured).outcome:
            expected = judge(judged.gate.name, judged.gate.bound, record.verdict.measured)
            yield Finding(place=place, text=_said(record.verdict), expected=_said(expected), concern="evaluations")
        elif isinstance(judged.gate.subject, AuditSubject | KeptAuditSubject):
            continue
        elif record.verdict.measured.value is not None and record.verdict != judged.verdict:
            yield Finding(
                place=place, text=_said(record.verdict), expected=_said(judged.verdict), concern="evaluations"
            )
    for purpose in dict.fromkeys(one.purpose for one in kept if one.step == step):
        said = {one.verdict.gate for one in kept if (one.step, one.purpose) == (step, purpose)}
        for name in (name for name in again if name not in said):
            place = f"gates.json, {purpose} at step {step}, gate {name}"
            text = "the verdict is missing; those of all gates are written together"
            yield Finding(place=place, text=text, expected=_said(again[name].verdict), concern="evaluations")


def _said(verdict: GateVerdict) -> str:
    return f"{verdict.outcome}: {verdict.because}"
