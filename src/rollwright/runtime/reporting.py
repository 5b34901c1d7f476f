"""What a finished step is told as, and what is summed up over all of them."""

from collections.abc import Mapping, Sequence

from rollwright.record import Metric, ScoredTrajectory
from rollwright.runtime.learning import Learned
from rollwright.runtime.metrics import StepClock
from rollwright.runtime.observers import StepReport
from rollwright.runtime.progress import Progress
from rollwright.runtime.timebook import PartTimes

__all__ = ["Reporter"]


class Reporter:
    """Makes the report of each step and keeps the sums since the command began."""

    def __init__(self, success_at: float) -> None:
        """Nothing is told yet; an episode with a reward of at least `success_at` is a success."""
        self.max_mismatch: float | None = None
        """Largest |behavior − proximal| at equal version, nats."""
        self.num_tokens = 0
        self.num_episodes = 0
        self._success_at = success_at
        self._pace: float | None = None

    def report(
        self,
        at: Progress,
        stage: tuple[str, int],
        members: Sequence[ScoredTrajectory],
        learned: Learned,
        clock: StepClock,
    ) -> StepReport:
        """Of one step.

        Args:
            at: where the run stands after it.
            stage: its name and its number of steps.
            members: of the batch.
            learned: from it.
            clock: seconds of its parts.
        """
        name, num_steps = stage
        rewards = [float(m.outcome) for m in members if not isinstance(m.outcome, str)]
        tokens = sum(m.trajectory.num_action_tokens for m in members)
        mismatch = _latest(learned.metrics, "mismatch/logp_abs", "max")
        if mismatch is not None:
            self.max_mismatch = max(mismatch, self.max_mismatch or 0.0)
        self.num_tokens += tokens
        self.num_episodes += len(members)
        seconds = clock.step_s
        self._pace = seconds if self._pace is None else 0.8 * self._pace + 0.2 * seconds
        last = learned.updates[-1][1]
        return StepReport(
            stage=name,
            step=at.step,
            stage_step=at.stage_step,
            stage_steps=num_steps,
            reward=sum(rewards) / len(rewards) if rewards else None,
            success=sum(r >= self._success_at for r in rewards) / len(rewards) if rewards else None,
            num_episodes=len(members),
            num_action_tokens=tokens,
            loss=last.loss,
            grad_norm=last.grad_norm,
            entropy=_latest(learned.metrics, "entropy/full"),
            lag=int(_latest(learned.metrics, "stale/lag", "max") or 0),
            mismatch=mismatch,
            seconds=seconds,
            collect_s=clock.collect_s,
            learn_s=clock.learn_s,
            save_s=clock.save_s,
            tokens_per_s=tokens / seconds if seconds else 0.0,
            left_s=self._pace * (num_steps - at.stage_step),
            skipped=last.skipped_reason,
            bottleneck=clock.parts.bottleneck,
            ledger=at.balance.by_state,
            anatomy=_anatomy(clock.parts),
        )


def _anatomy(parts: PartTimes) -> Mapping[str, float]:
    wall_s = parts.wall_s
    worked: dict[str, float] = {**parts.worked, "unattributed": parts.unattributed_s}
    return {part: seconds / wall_s for part, seconds in worked.items()} if wall_s > 0 else {}


def _latest(metrics: Sequence[Metric], name: str, stat: str | None = None) -> float | None:
    """The last value of a metric over all tokens, of this name and statistic; None where it is undefined."""
    due = {"model"} if stat is None else {"model", "stat"}
    of_all = (m for m in reversed(metrics) if m.name == name and set(m.labels) == due)
    return next((m.value for m in of_all if m.labels.get("stat") == stat), None)
