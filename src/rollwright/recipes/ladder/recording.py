"""Verdicts of the ladder in the folders of the runs that they are about, for the page and the reports."""

from collections.abc import Sequence
from datetime import datetime

from rollwright.evidence import RunFolder
from rollwright.evidence.gates import GateRecord, read_gates, record_gates
from rollwright.recipes.ladder.report import LadderVerdict
from rollwright.recipes.ladder.runs import LadderRun, last_step

__all__ = ["record_verdicts"]


def record_verdicts(run: LadderRun, verdicts: Sequence[LadderVerdict], *, level: int, at: datetime) -> None:
    """Add what was judged of a whole run to its gates; what stands there already is not written again.

    Args:
        run: it is whole, and nobody writes it.
        verdicts: of this run.
        level: of the ladder.
        at: now.
    """
    known = [one.verdict for one in read_gates(run.path) if one.purpose == "ladder"]
    if all(one.verdict in known for one in verdicts):
        return
    records = [
        GateRecord(
            at=at,
            step=last_step(run.resolved.recipe),
            purpose="ladder",
            what=f"level {level} of the ladder: {one.verdict.measured.source}",
            verdict=one.verdict,
            label=one.limit.label,
            limit_source=one.limit.source,
        )
        for one in verdicts
    ]
    with RunFolder.open(run.path, "write"):
        record_gates(run.path, records)
