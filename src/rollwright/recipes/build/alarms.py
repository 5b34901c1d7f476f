"""The alarms of a recipe, and what they have seen of a run that goes on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from rollwright.evaluation.gates_declared import rl_steps_of
from rollwright.evidence import Event, RunFolder, connect
from rollwright.recipes.config.alarms import AlarmConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Metric
from rollwright.record.gates import Bound
from rollwright.runtime.alarms import ACKNOWLEDGED, AlarmRule, AlarmWatch, Observed, Raised, Series, pause_sentence
from rollwright.runtime.errors import RunPausedError

__all__ = ["SeenAlarms", "build_alarms", "seen_alarms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAlarms:
    """The alarms of a run as its committed steps left them."""

    folder: RunFolder
    watch: AlarmWatch
    waiting: tuple[Raised, ...]
    """Alarms that paused the run and that nobody has acknowledged."""

    def refuse_unread(self, acknowledgment: str | None) -> None:
        """Stop a run from going on as if no alarm had risen.

        Args:
            acknowledgment: why it may go on; None: nobody says so.

        Raises:
            RunPausedError: with the diagnosis, where an alarm waits.
            RecipeError: for an acknowledgment of nothing, or one without a reason.
        """
        if acknowledgment is None and self.waiting:
            raise RunPausedError(pause_sentence(self.folder, self.waiting))
        if acknowledgment is not None and not self.waiting:
            raise RecipeError(
                f"no alarm of {self.folder.path} waits to be acknowledged; resume it without --acknowledge."
            )
        if acknowledgment is not None and not acknowledgment.strip():
            raise RecipeError("--acknowledge takes the reason why the run may go on; it is kept with the run.")

    def acknowledge(self, acknowledgment: str | None) -> None:
        """Keep with the run why it goes on."""
        for one in self.waiting if acknowledgment is not None else ():
            self.folder.record_event(
                Event(
                    at=datetime.now(UTC),
                    kind=ACKNOWLEDGED,
                    text=f"alarm {one.rule.name} was acknowledged: {acknowledgment}",
                    step=one.step,
                    fields={"alarm": one.rule.name, "why": str(acknowledgment)},
                )
            )


def build_alarms(recipe: RecipeConfig) -> tuple[AlarmRule, ...]:
    """The alarms of a recipe, in its order."""
    return tuple(_rule(one) for one in recipe.alarms)


def seen_alarms(folder: RunFolder, recipe: RecipeConfig, step: int) -> SeenAlarms:
    """Show the alarms what a run has committed.

    Args:
        folder: of the run.
        recipe: the run's.
        step: up to which; what came later is done again.
    """
    acknowledged = frozenset(
        (event.fields["alarm"], event.step)
        for event in folder.events()
        if event.kind == ACKNOWLEDGED and event.step is not None
    )
    watch = AlarmWatch(build_alarms(recipe), acknowledged)
    raised = [one for observed in _history(folder, watch, step) for one in watch.see(observed)]
    return SeenAlarms(folder=folder, watch=watch, waiting=tuple(one for one in raised if one.pauses))


def _history(folder: RunFolder, watch: AlarmWatch, step: int) -> list[Observed]:
    """Steps of the RL stage, in order, with the metrics that alarms read."""
    rl = rl_steps_of(folder.manifest)
    steps = sorted({c.step for c in folder.commits if c.kind == "step" and rl.first <= c.step <= min(rl.last, step)})
    if not steps or not watch.rules:
        return []
    with connect(folder.path, verification="sizes") as connection:
        answer = connection.execute(
            'SELECT step, "update", name, value, unit, labels, num_items, recorded_at FROM metrics '
            'WHERE name IN (SELECT unnest($names)) AND step BETWEEN $first AND $last ORDER BY step, "update"',
            {"names": sorted(watch.names), "first": steps[0], "last": steps[-1]},
        )
        columns = [column[0] for column in answer.description or ()]
        rows = [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
    by_step: dict[int, list[Metric]] = {one: [] for one in steps}
    for row in rows:
        by_step[cast("int", row["step"])].append(Metric(**row))
    return [Observed(step=one, metrics=by_step[one]) for one in steps]


def _rule(config: AlarmConfig) -> AlarmRule:
    return AlarmRule(
        name=config.name,
        series=Series(metric=config.metric, labels=config.labels),
        minus=Series(metric=config.minus, labels=config.minus_labels) if config.minus else None,
        rule=config.rule,
        first=config.first,
        in_a_row=config.in_a_row,
        bound=Bound(side=config.bound, limit=config.limit),
        action=config.action,
        label=config.label,
        source=config.source,
    )
