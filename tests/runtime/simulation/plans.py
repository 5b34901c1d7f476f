"""What is simulated: the numbers of a run, how long and how badly things go, and where its processes end."""

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from rollwright.record import Swap
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.buffer import RefillRule
from rollwright.runtime.dispatcher import DispatchRules
from rollwright.runtime.filtering import IncompleteRule, OverLag
from rollwright.runtime.mixing import MixtureRule

__all__ = ["Ending", "Plan", "plans"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one process ends before its work is done."""

    kind: Literal["kill", "power", "cancel", "stop", "scorer"]
    """SIGKILL; the same in the middle of a write; Ctrl-C twice; Ctrl-C once; a scorer that raises."""
    at: int
    """Calls of the loop, or touches of the disk, or groups that were scored."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One simulated run."""

    seed: int
    steps: int = 4
    warm_steps: int = 0
    max_lag: int = 0
    group_size: int = 2
    batch_groups: int = 2
    max_running: int | None = None
    extra_groups: int = 0
    concurrency: int = 8
    incomplete: IncompleteRule = "train"
    min_fraction: float = 0.0
    over_lag: OverLag = "expire"
    stragglers: Literal["wait", "park", "requeue"] = "wait"
    mixture: MixtureRule = "dispatch"
    refill: int | None = None
    """Groups without contrast that are replaced for one batch."""
    max_resumptions: int = 0
    decades: float = 2.0
    """Durations are spread over so many powers of ten."""
    learner_s: float = 1.0
    disk_s: float = 0.1
    failures: float = 0.0
    """Of attempts, by no fault of the policy."""
    duplicates: float = 0.0
    """Of attempts, which bring the episode before them once more."""
    grader_errors: float = 0.0
    """Of scored episodes."""
    refusals: float = 0.0
    """Of versions that are published, in every process but the last."""
    tolerated_refusals: int = 0
    swap: Swap = "drain"
    checkpoint_every: int = 1
    evaluate_every: int = 0
    endings: tuple[Ending, ...] = ()

    @property
    def batch_slots(self) -> int:
        return self.group_size * self.batch_groups

    @property
    def total_steps(self) -> int:
        return self.warm_steps + self.steps

    @property
    def most_open(self) -> int:
        """Slots that may be in flight or ready at once."""
        aside = 0 if self.refill is None else self.refill
        return (self.max_lag + 1) * self.batch_slots + (self.extra_groups + aside) * self.group_size

    def rules(self, first_version: int) -> DispatchRules:
        """As the wiring makes them."""
        return DispatchRules(
            stage="rl",
            admission=AdmissionRule(
                batch_slots=self.batch_slots,
                group_size=self.group_size,
                max_lag=self.max_lag,
                max_running=self.max_running,
                extra_slots=self.extra_groups * self.group_size,
                max_steps=self.steps,
            ),
            max_attempts=2,
            concurrency=self.concurrency,
            incomplete=self.incomplete,
            first_version=first_version,
            max_resumptions=self.max_resumptions,
            min_fraction=self.min_fraction,
            over_lag=self.over_lag,
            mixture=self.mixture,
            refill=None if self.refill is None else RefillRule(most_extra=self.refill, at_cap="best_available"),
            stragglers=self.stragglers,
        )


@st.composite
def plans(draw: st.DrawFn, *, most_steps: int = 6) -> Plan:
    """Any plan; the simplest is a synchronous run in which nothing goes wrong."""
    group_size = draw(st.integers(1, 4))
    is_crowded = draw(st.booleans())
    kinds = st.sampled_from(["kill", "kill", "power", "cancel", "stop", "scorer"])
    endings = st.builds(_ending, kinds, st.floats(0, 1, exclude_max=True))
    return Plan(
        seed=draw(st.integers(0, 2**32 - 1)),
        steps=draw(st.integers(1, most_steps)),
        warm_steps=draw(st.sampled_from([0, 0, 0, 1, 2])),
        max_lag=draw(st.integers(0, 8)),
        group_size=group_size,
        batch_groups=draw(st.integers(1, 3)),
        max_running=draw(st.sampled_from([None, group_size, 3 * group_size])),
        extra_groups=draw(st.sampled_from([0, 0, 1, 2])),
        concurrency=draw(st.integers(1, 3)) if is_crowded else 64,
        incomplete=draw(st.sampled_from(["train", "filter", "wait"])),
        min_fraction=draw(st.sampled_from([0.0, 0.5, 1.0])),
        over_lag=draw(st.sampled_from(["expire", "expire", "mask"])),
        stragglers=draw(st.sampled_from(["wait", "park", "requeue"])),
        mixture=draw(st.sampled_from(["dispatch", "deficit"])),
        refill=draw(st.sampled_from([None, None, 0, 2])),
        max_resumptions=draw(st.integers(0, 1)),
        decades=draw(st.sampled_from([0.0, 2.0, 4.0])),
        learner_s=draw(st.sampled_from([0.0, 0.01, 1.0, 100.0])),
        disk_s=draw(st.sampled_from([0.0, 0.01, 10.0])),
        failures=draw(st.sampled_from([0.0, 0.05, 0.3])),
        duplicates=draw(st.sampled_from([0.0, 0.0, 0.03])),
        grader_errors=draw(st.sampled_from([0.0, 0.2])),
        refusals=draw(st.sampled_from([0.0, 0.0, 0.3])),
        tolerated_refusals=draw(st.integers(0, 1)),
        swap=draw(st.sampled_from(["drain", "continue", "recompute"])),
        checkpoint_every=draw(st.integers(1, 3)),
        evaluate_every=draw(st.integers(0, 2)),
        endings=tuple(draw(st.lists(endings, max_size=4))),
    )


def _ending(kind: Literal["kill", "power", "cancel", "stop", "scorer"], share: float) -> Ending:
    most = {"kill": 500, "cancel": 500, "stop": 500, "power": 30, "scorer": 12}
    return Ending(kind=kind, at=1 + int(most[kind] * share))
