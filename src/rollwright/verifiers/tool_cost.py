"""What tool calls cost: success less so much a call, and how that comes out for each slice of the tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.tasks import TaskError, slice_of
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.grading import FunctionVerifier, Grade

__all__ = ["CallCost", "NetSuccess", "net_success_by_slice", "net_success_verifier"]

_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Of the calls of one episode, in units of a success."""

    per_call: float = 0.02
    cap: float = 0.5
    """Of all calls together; below 1, so that a success is always worth more than a failure."""

    def __post_init__(self) -> None:
        """Refuse a cost that turns a success into a failure."""
        if not 0 <= self.per_call or not 0 <= self.cap < 1:
            raise VerifierSetupError(
                f"a call costs {self.per_call} and all together at most {self.cap}; a cost is at least 0 and the cap "
                "below 1, what a success is worth"
            )

    def of(self, num_calls: int) -> float:
        """What so many calls cost."""
        return min(self.cap, self.per_call * num_calls)


def net_success_verifier(
    success: FunctionVerifier, cost: CallCost | None = None, *, name: str = "net_success"
) -> FunctionVerifier:
    """Success less the cost of the calls: `success − min(cap, per_call·calls)` where it is 1; else what it is.

    Args:
        success: gives 1 for a solved task.
        cost: of the calls; every call that was answered counts, failed ones too.
        name: in the tables.

    The components are `success`, `calls` and `cost`.
    """
    priced = cost or CallCost()

    def grade(submission: Submission) -> Grade:
        outcome = success.grade(submission)
        num_calls = sum(passage.kind == "tool" for passage in submission.passages)
        charged = priced.of(num_calls) if outcome.value >= 1 else 0.0
        components = {"success": outcome.value, "calls": float(num_calls), "cost": charged}
        return Grade(
            value=outcome.value - charged,
            finding=outcome.finding,
            evidence=outcome.evidence,
            components=tuple(NamedValue(name=what, value=value) for what, value in components.items()),
        )

    revision = digest([_REVISION, name, success.name, success.revision, priced.per_call, priced.cap])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade, deadline_s=success.deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSuccess:
    """Means over the attempts of one slice."""

    slice_name: str
    num_attempts: int
    """With a number; attempts with a grading error are left out."""
    success: float
    calls: float
    net: float


def net_success_by_slice(submissions: Sequence[Submission], verdicts: Sequence[Verdict]) -> tuple[NetSuccess, ...]:
    """Net success of each slice.

    Args:
        submissions: of any tasks.
        verdicts: of a `net_success_verifier` on them, in the same order.

    Returns:
        One entry a slice, by name.

    Raises:
        TaskError: for a task whose payload cannot be read.
    """
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for submission, verdict in zip(submissions, verdicts, strict=True):
        if submission.trajectory_id != verdict.trajectory_id:
            raise TaskError(f"verdict {verdict.trajectory_id} stands beside submission {submission.trajectory_id}")
        if isinstance(verdict.outcome, str):
            continue
        parts = {part.name: part.value for part in verdict.components}
        rows.setdefault(slice_of(submission.task), []).append((parts["success"], parts["calls"], verdict.outcome))
    found: list[NetSuccess] = []
    for slice_name, values in sorted(rows.items()):
        success, calls, net = (sum(column) / len(values) for column in zip(*values, strict=True))
        found.append(NetSuccess(slice_name=slice_name, num_attempts=len(values), success=success, calls=calls, net=net))
    return tuple(found)
