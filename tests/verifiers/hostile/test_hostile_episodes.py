"""Agents that mean to be paid without solving, played through the worlds that ship."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from rollwright.recipes.worlds import World, load_world
from rollwright.record import Action, Episode, Passage, StepResult, Submission, Task, ToolRequest
from rollwright.tasks import SplitSizes, payload_of
from rollwright.verifiers import Composition
from tests.verifiers.hostile.attacks import Attack, read_attacks, text_of

ATTACKS = read_attacks("worlds.jsonl")
ENVIRONMENT = ("tool", "user", "system")


@cache
def world_of(name: str) -> tuple[World, tuple[Task, ...]]:
    """A world, with two tasks of each of its slices."""
    world = load_world(name, {})
    return world, tuple(
        task for stratum in world.tasks(SplitSizes(train=20, held_out=4), 3) for task in stratum.train[:2]
    )


@dataclass(slots=True)
class Play:
    """What was said so far, and how it ended."""

    task: Task
    passages: list[Passage]
    heard: str = ""
    end: str = "turn_limit"

    def hear(self, step: StepResult) -> bool:
        """Keep what an environment said; False where that was all."""
        for message in (m for o in step.observations for m in o.messages):
            kind = "user" if message.role in ("user", "system") else "environment"
            self.passages.append(Passage(actor="agent", kind=kind, text=message.text))
        if step.end is not None or not step.observations:
            self.end = step.end or "model_end"
        return step.end is None and bool(step.observations)

    def filled(self, text: str) -> str:
        """A turn's text, with what the agent was told."""
        words = re.findall(r"[A-Z]\w+", self.heard)
        lines = "\n".join(f"answer: {word}" for word in words)
        asked = payload_of(self.task).messages[-1].text
        for name, value in {"{tool}": self.heard, "{tool_lines}": lines, "{question}": asked}.items():
            text = text.replace(name, value)
        return text


async def turn_of(episode: Episode, play: Play, given: Mapping[str, Any], number: int) -> StepResult:
    text = play.filled(text_of(given["text"]))
    play.passages.append(Passage(actor="agent", kind="policy", text=text))
    results = [
        await episode.call(ToolRequest(call_id=f"e/c{number}-{place}", tool=tool, arguments=text_of(arguments)))
        for place, (tool, arguments) in enumerate(given["calls"])
    ]
    step = await episode.step(Action(actor="agent", turn=number, text=text, calls=tuple(results)))
    for result in results:
        play.passages.append(Passage(actor="agent", kind="tool", text=result.text))
        play.heard += result.text + "\n"
    return step


async def reward(world: World, task: Task, attack: Attack) -> float | str:
    play = Play(task=task, passages=[])
    async with world.environment.open(task, seed=7) as episode:
        goes_on = play.hear(await episode.begin())
        for number, given in enumerate(attack.row["turns"]):
            if not goes_on:
                break
            goes_on = play.hear(await turn_of(episode, play, given, number))
        artifacts = await episode.artifacts()
    submission = Submission(
        trajectory_id=f"{attack.id}-00-0",
        task=task,
        terminal_reason=play.end,
        passages=tuple(play.passages),
        artifacts=artifacts,
    )
    (score,) = await Composition(world.parts).score([submission])
    return score.outcome


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_an_agent_that_solves_nothing_is_paid_nothing(attack: Attack) -> None:
    world, tasks = world_of(attack.row["world"])

    async def rewards() -> dict[str, float | str]:
        return {task.task_id: await asyncio.wait_for(reward(world, task, attack), 120.0) for task in tasks}

    found = asyncio.run(rewards())
    paid = {key: value for key, value in found.items() if isinstance(value, str) or value >= world.success_threshold}
    assert paid == {}
