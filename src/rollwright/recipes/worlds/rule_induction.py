"""Rules that say which trains go east, judged under other names than those that were shown."""

from rollwright.environments import DemonstratedTurn, ToolEnvironment
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.tasks import SplitSizes, Stratum, induction_source, payload_of, stratum_of, trains_of
from rollwright.verifiers import Part, rule_verifier

__all__ = ["load"]


def load(*, trains: int = 6) -> World:
    """Induction of a rule from examples; a list of the examples passes one verifier and not the other.

    Args:
        trains: examples of a task.
    """

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(induction_source(sizes, trains=trains, seed=seed), 1.0),)

    return World(
        environment=ToolEnvironment(name="rule_induction", tools=[], demonstrate=_the_rule),
        tasks=tasks,
        parts=(
            Part(verifier=rule_verifier("isomorphic")),
            Part(verifier=rule_verifier("extensional"), weight=0.0, role="shaping"),
        ),
        reference=_the_rule,
        attacks={"lists the trains": _the_trains, "every property": _every_property},
    )


def _the_rule(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"answer: {payload_of(task).answer}"),)


def _the_trains(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    east = [f"train={train.name}" for train in trains_of(payload_of(task).info) if train.is_east]
    return (DemonstratedTurn(text=f"answer: {' or '.join(east)}"),)


def _every_property(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="answer: red or blue or green or short or long or loaded or empty"),)
