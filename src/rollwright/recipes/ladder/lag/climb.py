"""Climbs a level: brings each arm to its end, measures it, compares it with the baseline, judges the gates."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.lag.arms import ClimbOrder, arms_of, complete
from rollwright.recipes.ladder.lag.comparison import Comparison, compare
from rollwright.recipes.ladder.lag.figures import ArmFigures, figures_of
from rollwright.recipes.ladder.lag.gates import Verdict, highest_unfailed, judge_all
from rollwright.recipes.ladder.lag.level import Level

__all__ = ["LadderReport", "climb", "report_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderReport:
    """What a level came to."""

    level: Level
    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdict, ...]
    highest: int
    """The largest value of the axis up to which no gate failed."""
    notes: tuple[str, ...]
    """What a reader has to know of the comparison."""

    @property
    def has_failed(self) -> bool:
        """True where a gate of any arm failed."""
        return any(verdict.outcome == "failed" for verdict in self.verdicts)


def climb(order: ClimbOrder, commands: Commands, heard: Callable[[str], None]) -> Iterator[ArmFigures]:
    """Each arm as soon as it is measured, the baseline first.

    Args:
        order: what was asked for; all of it is checked before the first arm begins.
        commands: that run now.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: for a ladder that cannot be run, or a folder that holds other runs.
        LadderError: where an arm did not come to its end.
        RunStoppedError: where someone stopped it.
    """
    for arm in arms_of(order):
        complete(arm, order.final, commands, heard)
        yield figures_of(arm, order.final)


def report_of(level: Level, arms: Sequence[ArmFigures]) -> LadderReport:
    """Compare and judge.

    Args:
        level: its gates are asked.
        arms: the baseline first.
    """
    comparisons = compare(arms)
    verdicts = judge_all(level.gates, comparisons)
    return LadderReport(
        level=level,
        comparisons=comparisons,
        verdicts=verdicts,
        highest=highest_unfailed(verdicts, arms[0].value),
        notes=tuple(_notes(arms)),
    )


def _notes(arms: Sequence[ArmFigures]) -> Iterator[str]:
    if len({arm.commit for arm in arms}) > 1:
        listed = ", ".join(f"{arm.name}: {arm.commit[:12]}" for arm in arms)
        yield f"the arms were made by different code ({listed}); their times do not compare."
    for arm in arms:
        if arm.resumed:
            yield f"{arm.name} was gone on with {arm.resumed} times; the time that it lost is not counted."
    if len({tuple(sorted(arm.threads.items())) for arm in arms}) > 1:
        listed = "; ".join(f"{arm.name}: {_threads(arm)}" for arm in arms)
        yield f"torch's threads differ ({listed}): with a lag, engine and learner work at the same time."
    yield "one seed an arm: the intervals are over tasks, and say nothing of another seed."


def _threads(arm: ArmFigures) -> str:
    return ", ".join(f"{role} {count}" for role, count in arm.threads.items())
