"""Plays the agents of a world through its environment and its verifiers, turn by turn, without a model."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds import World
from rollwright.record import Action, Episode, Passage, Submission, Task, ToolRequest
from rollwright.tasks import SplitSizes, payload_of
from rollwright.verifiers import Composition, Score

__all__ = ["commanded", "info_of", "play", "score", "seen", "tasks_of"]


def tasks_of(world: World, count: int = 12) -> tuple[Task, ...]:
    strata = world.tasks(SplitSizes(train=count, held_out=2), 0)
    return tuple(task for stratum in strata for task in stratum.train)


def info_of(task: Task) -> Any:
    """A task's `info`, whose values a test knows."""
    return payload_of(task).info


def commanded(*commands: str) -> tuple[DemonstratedTurn, ...]:
    return tuple(DemonstratedTurn(text=command) for command in commands)


async def play(world: World, task: Task, turns: Sequence[DemonstratedTurn], *, seed: int = 0) -> Submission:
    """Silent turns follow until the episode ends."""
    async with world.environment.open(task, seed=seed) as episode:
        return await _played(episode, task, turns)


def score(world: World, task: Task, turns: Sequence[DemonstratedTurn]) -> Score:
    async def scenario() -> Score:
        (scored,) = await Composition(world.parts).score([await play(world, task, turns)])
        return scored

    return asyncio.run(scenario())


def seen(world: World, task: Task, turns: Sequence[DemonstratedTurn], *, seed: int = 0) -> list[tuple[str, str | None]]:
    """What is said and the state's hash, at each open turn."""

    async def scenario() -> list[tuple[str, str | None]]:
        async with world.environment.open(task, seed=seed) as episode:
            result, found = await episode.begin(), []
            for number, turn in enumerate(turns):
                found += [("\n".join(m.text for m in o.messages), o.state_hash) for o in result.observations]
                result = await episode.step(Action(actor="agent", turn=number, text=turn.text, calls=()))
            return [*found, *(("\n".join(m.text for m in o.messages), o.state_hash) for o in result.observations)]

    return asyncio.run(scenario())


async def _played(episode: Episode, task: Task, turns: Sequence[DemonstratedTurn]) -> Submission:
    result, passages = await episode.begin(), list[Passage]()
    silence = itertools.repeat(DemonstratedTurn(text=""))
    for number, turn in enumerate(itertools.islice(itertools.chain(turns, silence), 60)):
        for observation in result.observations:
            passages += [Passage(actor="agent", kind="environment", text=m.text) for m in observation.messages]
        passages.append(Passage(actor="agent", kind="policy", text=turn.text))
        calls = [
            await episode.call(ToolRequest(call_id=f"c{n}", tool=call.tool, arguments=call.arguments))
            for n, call in enumerate(turn.calls)
        ]
        passages += [Passage(actor="agent", kind="tool", text=call.text) for call in calls]
        result = await episode.step(Action(actor="agent", turn=number, text=turn.text, calls=tuple(calls)))
        if result.end is not None or not result.observations:
            break
    left = await episode.artifacts()
    assert all(json.loads(value) is not None for value in left.values())
    return Submission(
        trajectory_id="t000001-00-0",
        task=task,
        terminal_reason=result.end or "model_end",
        passages=tuple(passages),
        artifacts=left,
    )
