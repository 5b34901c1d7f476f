"""Another world, played by several kinds of agents in lock-step."""

from dataclasses import replace
from pathlib import Path

from rollwright.environments import (
    DemonstratedTurn,
    DemonstrateFn,
    LockstepEnvironment,
    Seat,
    scripted_seat,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.arguments import read_arguments
from rollwright.recipes.worlds.world import World, null_agent
from rollwright.record import Task

__all__ = ["load"]

_REFERENCE, _SILENT, _PERSON = "reference", "silent", "person"


def load(
    *, world: str = "text_world", arguments: str = "", seats: str = "reference,silent", transcript: str = ""
) -> World:
    """Another world in lock-step: the policy and others play the same task from the same seed, turn by turn.

    Args:
        world: that is played; an episode of it has one actor.
        arguments: of that world, as `key=value` with blanks between them.
        seats: who plays beside the policy, with commas between them: `reference`, `silent`, `person` (the stand-in for
            one, who reads out a transcript), or an attack of the world by its name.
        transcript: file of what the person says, a turn a line.
    """
    from rollwright.recipes.worlds.table import load_world  # The table names this module.

    inner = load_world(world, read_arguments(arguments.split()))
    names = tuple(name.strip() for name in seats.split(",") if name.strip())
    try:
        return replace(
            inner,
            environment=LockstepEnvironment(inner.environment, [_seat(name, inner, transcript) for name in names]),
        )
    except ValueError:
        inner.close()
        raise


def _seat(name: str, inner: World, transcript: str) -> Seat:
    if name == _PERSON:
        return scripted_seat(name, _read_out(transcript), kind="person")
    scripts = {_REFERENCE: inner.reference, _SILENT: null_agent, **inner.attacks}
    if name not in scripts:
        raise RecipeError(f"there is no seat {name!r}; there are {', '.join(scripts)} and {_PERSON}")
    return scripted_seat(name, scripts[name])


def _read_out(transcript: str) -> DemonstrateFn:
    try:
        lines = Path(transcript).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RecipeError(
            f"transcript {transcript!r} cannot be read: {error}; write what the person says, a turn a line."
        ) from error
    turns = tuple(DemonstratedTurn(text=line) for line in lines)

    def reads(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return turns

    return reads
