"""Climbs the ladder: level by level, as far as the gates let it."""

from collections.abc import Callable, Iterator

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.commands import Commands, open_commands
from rollwright.recipes.ladder.faults import fault_named
from rollwright.recipes.ladder.lag.report import LAG_LEVEL, climb_lags
from rollwright.recipes.ladder.level_runs import climb_runs
from rollwright.recipes.ladder.plan import built_levels, load_plan
from rollwright.recipes.ladder.report import LevelReport, write_report
from rollwright.recipes.ladder.runs import LadderOrder

__all__ = ["climb_ladder", "levels_to"]


def levels_to(top: int | None) -> tuple[int, ...]:
    """Levels to climb, from 0.

    Args:
        top: the last; None: the highest that is built.

    Raises:
        RecipeError: for one that there is not.
    """
    built = built_levels()
    if top is not None and top not in built:
        raise RecipeError(f"the ladder has no level {top}; give {', '.join(map(str, built))}.")
    return tuple(level for level in built if top is None or level <= top)


def climb_ladder(levels: tuple[int, ...], order: LadderOrder, heard: Callable[[str], None]) -> Iterator[LevelReport]:
    """Each level as soon as it is judged and its report is written; none behind one that has not passed.

    Args:
        levels: in order.
        order: what was asked for.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: for what cannot be run as asked, or a folder that holds other runs.
        LadderError: where a run did not come to its end.
        RunStoppedError: where someone stopped it.
    """
    if order.fault:
        fault_named(order.fault, levels[-1])
    with open_commands() as commands:
        for level in levels:
            report = _climb(level, order, commands, heard)
            write_report(order.folder / f"fault-{order.fault}" if order.fault else order.folder, report)
            yield report
            if report.outcome != "passed":
                return


def _climb(level: int, order: LadderOrder, commands: Commands, heard: Callable[[str], None]) -> LevelReport:
    if level == 0:
        from rollwright.recipes.ladder.mathematics.level_zero import climb_mathematics

        return climb_mathematics(heard, fault=order.fault)
    if level == LAG_LEVEL:
        return climb_lags(order, commands, heard)
    return climb_runs(load_plan(level), order, commands, heard)
