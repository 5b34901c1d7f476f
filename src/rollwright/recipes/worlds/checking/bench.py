"""The world that is checked, on the bench: its tasks, its agents, and how their episodes went the first time."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds.checking.footprint import descendants
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, CheckOrder
from rollwright.recipes.worlds.checking.playing import Script, Transcript, turns_of
from rollwright.recipes.worlds.checking.process_state import ProcessState, process_state
from rollwright.recipes.worlds.checking.schemas import ToolFace, plausible
from rollwright.recipes.worlds.checking.stage import Stage
from rollwright.recipes.worlds.world import World, null_agent
from rollwright.record import Task, ToolRequest
from rollwright.verifiers import Composition

__all__ = ["NULL", "PROBE", "REFERENCE", "Bench", "attack_name", "together"]

REFERENCE = "the reference"
NULL = "the null agent"
PROBE = "a probe of the tools"
_PROBED_TOOLS = 12
_PROBES = 3
"""The third call shows whether the first two led to states that only look equal."""


@dataclass(slots=True, kw_only=True, eq=False)
class Bench:
    """What the checks of one world share."""

    order: CheckOrder
    stage: Stage
    make: Callable[[], World]
    scratch: Path | None = None
    """The folder of temporary files, where it is this process's own."""
    elsewhere: Callable[[CheckOrder], Awaitable[Mapping[str, object]]] | None = None
    """Plays the world in a process of its own."""
    there: Mapping[str, object] = field(default_factory=dict[str, object])
    """What it found."""
    folder: str = field(default_factory=os.getcwd)
    """The working folder, before anything of the world ran."""
    others: frozenset[int] = field(default_factory=lambda: descendants(os.getpid()))
    """Processes that were there before anything of the world ran."""
    state: ProcessState = field(default_factory=process_state)
    """Of the process, once the world was built."""
    world: World | None = None
    composition: Composition | None = None
    tasks: tuple[Task, ...] = ()
    tools: Mapping[str, ToolFace] = field(default_factory=dict[str, ToolFace])
    plays: dict[tuple[str, str], Transcript] = field(default_factory=dict[tuple[str, str], Transcript])
    """(task id, script) to how it went the first time."""

    def built(self) -> World:
        """The world."""
        assert self.world is not None, "the first check builds it, and nothing follows where it fails"
        return self.world

    def scripts(self, task: Task) -> tuple[Script, ...]:
        """Who plays a task, in order.

        Raises:
            CheckFailedError: where an agent of the world raises.
        """
        world = self.built()
        agents = {REFERENCE: world.reference, NULL: null_agent}
        agents |= {attack_name(name): agent for name, agent in world.attacks.items()}
        scripts: list[Script] = []
        for name, agent in agents.items():
            self.stage.at(f"planning the turns of {name}, task {task.task_id},")
            scripts.append(Script(name=name, turns=turns_of(agent, task, name)))
        return (*scripts, Script(name=PROBE, turns=self._probe()))

    def reference(self, task: Task) -> Script:
        """How a task is solved."""
        self.stage.at(f"planning the turns of {REFERENCE}, task {task.task_id},")
        return Script(name=REFERENCE, turns=turns_of(self.built().reference, task, REFERENCE))

    def played(self, task: Task, script: str) -> Transcript:
        """How it went the first time.

        Raises:
            CheckFailedError: where it did not.
        """
        transcript = self.plays.get((task.task_id, script))
        if transcript is None:
            raise CheckFailedError(f"task {task.task_id}, {script}: it could not be played; mend that first")
        return transcript

    def probe(self) -> DemonstratedTurn:
        """Each tool called once, in one turn."""
        calls = [turn.calls[0] for turn in self._probe()[::_PROBES]]
        return DemonstratedTurn(text="", calls=tuple(calls))

    def _probe(self) -> tuple[DemonstratedTurn, ...]:
        """Each tool called three times with arguments made from its schema, a call a turn."""
        calls = [
            ToolRequest(call_id="", tool=name, arguments=plausible(face.parameters))
            for name, face in list(self.tools.items())[:_PROBED_TOOLS]
            for _ in range(_PROBES)
        ]
        return tuple(DemonstratedTurn(text="", calls=(call,)) for call in calls)


def attack_name(name: str) -> str:
    """How sentences call an attack."""
    return f"the attack {name!r}"


async def together(plays: Sequence[Awaitable[Transcript]]) -> list[Transcript]:
    """Play several episodes at once; what one of them raises is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_awaited(play), name=f"play {n}") for n, play in enumerate(plays)]
    except BaseExceptionGroup as error:
        raise _first(error) from error
    return [task.result() for task in running]


def _first(error: BaseExceptionGroup[BaseException]) -> BaseException:
    one = error.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", one)) if isinstance(one, BaseExceptionGroup) else one


async def _awaited(play: Awaitable[Transcript]) -> Transcript:
    return await play
