"""What the loop tells those who watch: records, never text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollwright.record import EvaluationRow, Metric

__all__ = ["EvaluationProgress", "EvaluationReport", "Observer", "RunStarted", "StageStarted", "StepReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run folder is open; nothing was sampled yet, or the run goes on from `resumed_step`."""

    run_dir: str
    run_id: str
    stages: tuple[str, ...]
    total_steps: int
    resumed_step: int | None
    num_parameters: int
    evaluated_step: int | None = None
    """Of the checkpoint that is evaluated, where nothing is trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """A stage begins."""

    stage: str
    kind: Literal["supervised", "rl"]
    first_step: int
    num_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One finished and committed step."""

    stage: str
    step: int
    stage_step: int
    stage_steps: int
    reward: float | None
    """Mean over scored episodes; None where nothing is scored."""
    success: float | None
    """Share of scored episodes with a reward of at least the success threshold."""
    num_episodes: int
    num_action_tokens: int
    loss: float
    grad_norm: float
    entropy: float | None
    """Nats a token."""
    lag: int
    mismatch: float | None
    """Largest |behavior − proximal| at equal version, nats."""
    seconds: float
    collect_s: float
    learn_s: float
    save_s: float
    tokens_per_s: float
    left_s: float | None
    skipped: str | None
    bottleneck: str | None
    """The part of the run that the others waited for since the step before."""
    ledger: Mapping[str, int]
    anatomy: Mapping[str, float] = field(default_factory=dict[str, float])
    """Share of the time since the step before in which each part was at work; `unattributed`: in which none was."""
    metrics: tuple[Metric, ...] = ()
    """All that the step's commit holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationProgress:
    """An evaluation of the held-out protocol that is under way; told when it begins and whenever one more ended."""

    step: int
    num_done: int
    num_episodes: int
    """To be run in all, without those that are tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """One finished evaluation of the held-out protocol."""

    step: int
    stage: str
    protocol: str
    success: float | None
    """None where every attempt went unscored."""
    low: float | None
    high: float | None
    num_tasks: int
    num_samples: int
    seconds: float
    rows: tuple[EvaluationRow, ...]


class Observer(Protocol):
    """Hears what happens, in order; must not raise."""

    def run_started(self, report: RunStarted) -> None:
        """The run begins or goes on."""
        ...

    def stage_started(self, report: StageStarted) -> None:
        """A stage begins."""
        ...

    def step_finished(self, report: StepReport) -> None:
        """A step was committed."""
        ...

    def evaluating(self, report: EvaluationProgress) -> None:
        """An evaluation begins, or one more of its episodes has ended."""
        ...

    def evaluated(self, report: EvaluationReport) -> None:
        """An evaluation was committed."""
        ...

    def warned(self, sentence: str) -> None:
        """Something a person should know."""
        ...
