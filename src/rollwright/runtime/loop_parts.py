"""What a loop is made of, and what it comes to."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from rollwright.algorithms import Objective
from rollwright.batches import BatchRules
from rollwright.evaluation import Evaluation
from rollwright.evidence import RunFolder
from rollwright.runtime.alarms import AlarmWatch
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.observers import Observer
from rollwright.runtime.parts import Collector, GroupCounter, Learner
from rollwright.runtime.probes import EngineProbe
from rollwright.runtime.progress import EvaluationPoint
from rollwright.runtime.prompt_metrics import PromptWatch
from rollwright.runtime.saving import CheckpointRule
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.timebook import TimeBook
from rollwright.runtime.watchdog import Watchdog
from rollwright.runtime.weights import WeightChannel

__all__ = ["LoopParts", "RunResult", "Stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a run with its own objective and its own way to get batches."""

    name: str
    kind: Literal["supervised", "rl"]
    steps: int
    objective: Objective
    eligible: frozenset[tuple[str, str | None]]
    rules: BatchRules
    collector: Callable[[int], Collector]
    """From the policy version at the stage's start."""
    begin: Callable[[], None]
    """Gives the learner this stage's optimizer; called in its thread."""
    evaluate_every: int
    """Steps; 0: only at the end."""
    reference_every: int = 0
    """Steps between measurements of the distance to a frozen reference that the objective does not read; 0: none."""

    def measures_reference(self, stage_step: int) -> bool:
        """Whether the distance to the reference is measured in this step of the stage."""
        every = self.reference_every
        return every > 0 and (stage_step % every == 0 or stage_step in (1, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """Everything a run is made of."""

    folder: RunFolder
    stages: tuple[Stage, ...]
    learner: Learner
    learner_thread: Executor
    channel: WeightChannel
    probe: EngineProbe | None
    """Asked after each publication of an RL stage; None: engine and learner are not compared."""
    watchdog: Watchdog | None
    """Hears who is waited for, and ends a run that gets nowhere; None: nobody watches."""
    book: TimeBook
    counter: GroupCounter
    ledger: Ledger
    evaluate: Callable[[int], Awaitable[Evaluation]]
    """Runs the held-out protocol with the weights that serve, for a step."""
    checkpoints: CheckpointRule
    observer: Observer
    shutdown: Shutdown
    now: Callable[[], datetime]
    success_threshold: float
    graders: frozenset[str] = frozenset()
    """Verifiers that each say whether a task was solved; where two differ, a metric says so."""
    prompts: PromptWatch = field(default_factory=lambda: PromptWatch(()))
    """Compares a step's prompts with the held-out ones."""
    restored_s: float | None = None
    """What it took to take a checkpoint back; None: nothing was."""
    alarms: AlarmWatch = field(default_factory=lambda: AlarmWatch(()))
    """Shown the metrics of each RL step; what rose before this command it has seen."""
    judge: Callable[[int], None] = lambda step: None
    """Judges the run's gates behind a step that was evaluated, from the folder alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a finished run came to."""

    steps: int
    seconds: float
    before: EvaluationPoint | None
    """At the start of the last stage."""
    after: EvaluationPoint | None
    max_mismatch: float | None
    """Largest |behavior − proximal| at equal version since this command began, nats."""
    num_action_tokens: int
    num_episodes: int
