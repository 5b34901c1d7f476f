"""What judges a run's gates while it trains."""

from collections.abc import Callable
from datetime import UTC, datetime

from rollwright.evaluation.gates_declared import gates_of, rl_steps_of
from rollwright.evaluation.gates_of_runs import judge_run, records_of
from rollwright.evidence import RunFolder
from rollwright.evidence.gates import record_gates

__all__ = ["gate_judge"]


def gate_judge(folder: RunFolder) -> Callable[[int], None]:
    """Judges the gates behind a step that was evaluated, and keeps the verdicts with the run.

    Args:
        folder: of the run, open for writing.
    """
    if not gates_of(folder.manifests[0]):
        return lambda step: None
    first = rl_steps_of(folder.manifest).first

    def judge(step: int) -> None:
        # What the warm start left is what gates compare with, not what they are about.
        if step >= first:
            judged = judge_run(folder.path, step, verification="sizes")
            record_gates(folder.path, records_of(judged, "run", datetime.now(UTC)))

    return judge
