"""The numbers of a step that only the loop knows: its episodes, slots and time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.record import Metric
from rollwright.runtime.episode_metrics import StepEpisodes, episode_metrics
from rollwright.runtime.episode_strata import episode_strata_metrics
from rollwright.runtime.flow_metrics import flow_metrics
from rollwright.runtime.grader_metrics import grader_metrics
from rollwright.runtime.timebook import PartTimes

__all__ = ["StepClock", "StepEpisodes", "step_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClock:
    """Seconds of the parts of a step."""

    collect_s: float
    learn_s: float
    publish_s: float
    save_s: float
    """For which the step before held the loop while it was written."""
    parts: PartTimes
    """Of the run, since the step before came to this place."""
    num_accelerators: int = 0
    """That the run holds; 0: the machine's processors alone."""

    @property
    def step_s(self) -> float:
        """The whole step, but for an evaluation."""
        return self.collect_s + self.learn_s + self.publish_s + self.save_s


def step_metrics(
    step: int,
    episodes: StepEpisodes,
    *,
    balance: Mapping[str, int],
    clock: StepClock,
    now: datetime,
    measures: Sequence[Diagnostic] = (),
) -> tuple[Metric, ...]:
    """Metrics of one step.

    Args:
        step: the step they belong to.
        episodes: what ended by it.
        balance: slots by state after the step.
        clock: seconds of its parts.
        now: their time stamp.
        measures: what the collector counted.

    Returns:
        Metrics without a model, in a fixed order.
    """
    sampled = sum(m.trajectory.num_action_tokens for m in episodes.members)
    numbers = [
        *episode_metrics(episodes),
        *episode_strata_metrics(episodes.members, step=step, success_at=episodes.success_at),
        *grader_metrics(episodes.members, episodes.graders, success_at=episodes.success_at),
        *flow_metrics(episodes.groups, episodes.others, episodes.ledger, success_at=episodes.success_at),
        *(
            Diagnostic(name="data/slots", value=float(count), unit="slots", num_items=count, labels={"state": state})
            for state, count in balance.items()
        ),
        Diagnostic(name="time/collect", value=clock.collect_s, unit="s", num_items=1),
        Diagnostic(name="time/learn", value=clock.learn_s, unit="s", num_items=1),
        Diagnostic(name="time/publish", value=clock.publish_s, unit="s", num_items=1),
        Diagnostic(name="time/save", value=clock.save_s, unit="s", num_items=1),
        *(
            Diagnostic(name="time/part", value=seconds, unit="s", num_items=1, labels={"part": part, "state": state})
            for (part, state), seconds in clock.parts.seconds.items()
        ),
        Diagnostic(name="time/wall", value=clock.parts.wall_s, unit="s", num_items=1),
        Diagnostic(name="time/unattributed", value=clock.parts.unattributed_s, unit="s", num_items=1),
        Diagnostic(
            name="sys/tokens_s",
            value=sampled / clock.collect_s if clock.collect_s else None,
            unit="tokens/s",
            num_items=sampled,
        ),
        *_yields(episodes, clock),
        *measures,
    ]
    return tuple(
        Metric(
            step=step,
            update=0,
            name=n.name,
            value=n.value,
            unit=n.unit,
            labels=n.labels,
            num_items=n.num_items,
            recorded_at=now,
        )
        for n in numbers
    )


def _yields(episodes: StepEpisodes, clock: StepClock) -> Iterator[Diagnostic]:
    """Episodes that were trained, and those that carried a gradient, for an hour of what the run occupies."""
    hours = clock.step_s * max(1, clock.num_accelerators) / 3600
    per = {"per": "accelerator" if clock.num_accelerators else "machine"}
    counts = {"sys/accepted_per_gpu_hour": len(episodes.members), "sys/useful_per_gpu_hour": episodes.num_useful}
    for name, count in counts.items():
        value = None if count is None or not hours else count / hours
        yield Diagnostic(name=name, value=value, unit="1/h", num_items=count or 0, labels=per)
