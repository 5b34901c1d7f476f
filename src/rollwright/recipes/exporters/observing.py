"""The observers behind the screen: the log in the run's folder, and what is sent elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rollwright.evidence import EvidenceError, MetricLine, RunFolder
from rollwright.evidence.gates import GateRecord, read_gates
from rollwright.recipes.exporters.client import ExportRecord
from rollwright.recipes.exporters.naming import Names, evaluation_values, gate_values, renamed, step_values
from rollwright.recipes.exporters.sending import Sender
from rollwright.runtime.observers import (
    EvaluationProgress,
    EvaluationReport,
    Observer,
    RunStarted,
    StageStarted,
    StepReport,
)

__all__ = ["ExportSeat", "LoggedObserver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSeat:
    """A sender, and whose names it gets."""

    sender: Sender
    names: Names


@dataclass(slots=True, kw_only=True)
class LoggedObserver:
    """Passes everything on to the first observer, logs steps and evaluations, and offers them to the senders."""

    first: Observer
    folder: RunFolder
    seats: Sequence[ExportSeat]
    now: Callable[[], datetime]
    gates: tuple[GateRecord, ...]
    """What gates have said already."""

    def run_started(self, report: RunStarted) -> None:
        """Pass it on."""
        self.first.run_started(report)

    def stage_started(self, report: StageStarted) -> None:
        """Pass it on."""
        self.first.stage_started(report)

    def step_finished(self, report: StepReport) -> None:
        """Log the step and offer it, behind what gates said since."""
        values = step_values(report.metrics)
        self._log(MetricLine(kind="step", step=report.step, stage=report.stage, at=self.now(), values=values))
        self._offer_gates()
        self._offer(report.step, values, is_last_of_step=True)
        self.first.step_finished(report)

    def evaluating(self, report: EvaluationProgress) -> None:
        """Pass it on."""
        self.first.evaluating(report)

    def evaluated(self, report: EvaluationReport) -> None:
        """Log the evaluation and offer it."""
        values = evaluation_values(report.rows)
        self._log(MetricLine(kind="evaluation", step=report.step, stage=report.stage, at=self.now(), values=values))
        self._offer_gates()
        self._offer(report.step, values, is_last_of_step=False)
        self.first.evaluated(report)

    def warned(self, sentence: str) -> None:
        """Pass it on."""
        self.first.warned(sentence)

    def close(self) -> None:
        """Wait a while for what was offered, and say what was not taken."""
        self._offer_gates()
        for seat in self.seats:
            seat.sender.close()
        self._tell()

    def _offer(self, step: int, values: Mapping[str, float | None], *, is_last_of_step: bool) -> None:
        for seat in self.seats:
            sent = renamed(values, seat.names)
            seat.sender.offer(ExportRecord(step=step, values=sent, is_last_of_step=is_last_of_step))
        self._tell()

    def _tell(self) -> None:
        """On the thread of the loop: a screen is told by one thread alone."""
        for seat in self.seats:
            for sentence in seat.sender.complaints():
                self.first.warned(sentence)

    def _log(self, line: MetricLine) -> None:
        try:
            self.folder.log_metrics(line)
        except (OSError, EvidenceError) as error:
            # The rows are committed, and a resume writes the lines that are missing.
            self.first.warned(f"metrics.jsonl lacks a line of step {line.step}: {error}")

    def _offer_gates(self) -> None:
        """Offer what gates said since, each at the step that it is about."""
        if not self.seats:
            return
        records = read_gates(self.folder.path)
        new = [record for record in records if record not in self.gates]
        self.gates = records
        for step in sorted({record.step for record in new}):
            values = gate_values([record for record in new if record.step == step])
            self._offer(step, values, is_last_of_step=False)
