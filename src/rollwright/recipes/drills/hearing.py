"""What a drill hears of a run, and how it asks the run to stop."""

from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.runtime.shutdown import Shutdown

__all__ = ["Hearing"]


class Hearing:
    """An observer that keeps what it heard."""

    def __init__(self) -> None:
        """Nothing is heard yet."""
        self.sentences: list[str] = []
        self.hits = 0
        self.misses = 0
        self._shutdown: Shutdown | None = None
        self._stops_at: int | None = None
        self._is_rl = False

    def follow(self, shutdown: Shutdown, stops_at: int | None) -> None:
        """Ask for a stop after an RL step, if any."""
        self._shutdown, self._stops_at = shutdown, stops_at

    def run_started(self, report: RunStarted) -> None:
        """Nothing to keep."""

    def stage_started(self, report: StageStarted) -> None:
        """Steps are counted within the RL stage."""
        self._is_rl = report.kind == "rl"

    def step_finished(self, report: StepReport) -> None:
        """The step may be the one to stop after."""
        if self._shutdown is not None and self._is_rl and report.stage_step == self._stops_at:
            self.hits += 1
            self._shutdown.request(lambda: None)

    def evaluating(self, report: EvaluationProgress) -> None:
        """Nothing to keep."""

    def evaluated(self, report: EvaluationReport) -> None:
        """Nothing to keep."""

    def warned(self, sentence: str) -> None:
        """Keep it."""
        self.sentences.append(sentence)
