"""The same task, seed and actions give the same: later, at once, in another order, and in another process."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from rollwright.recipes.worlds.checking import mistakes, states
from rollwright.recipes.worlds.checking.bench import REFERENCE, Bench, together
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, EnvironmentFaultError, shown
from rollwright.recipes.worlds.checking.playing import (
    Fact,
    Pace,
    Script,
    Transcript,
    first_difference,
    play,
    take_artifacts,
)
from rollwright.recipes.worlds.checking.stage import SLOW_S, Stage
from rollwright.record import Episode, Task

__all__ = ["facts_of", "plays", "plays_again", "plays_elsewhere", "plays_together"]

_FIRST_PAUSE_S = 1.1
_PAUSE_S = 0.02
_STANDSTILL_S = 0.5
_MOST_STANDSTILLS = 3
"""One may be the machine's, or an import's."""
_ASIDE = 3
"""Episodes that are played at once with each of the first tasks."""


async def plays(bench: Bench) -> str:
    """Every agent's episodes run, and the reference's end."""
    for task in bench.tasks:
        for script in bench.scripts(task):
            played = await play(bench.stage, bench.built().environment, task, script)
            _refuse_strangers(bench, played)
            bench.plays[task.task_id, script.name] = played
        transcript = bench.played(task, REFERENCE)
        if not transcript.hashes:
            raise CheckFailedError(f"task {task.task_id}: the beginning opens no turn; begin gives an observation")
        if transcript.terminal_reason == "turn_limit" or transcript.num_turns > len(bench.reference(task).turns):
            raise CheckFailedError(
                f"{transcript.where}: the episode does not end with its {len(bench.reference(task).turns)} turns; it "
                "needs a termination: an `end`, or a step that opens no turn"
            )
    counts = [bench.played(task, REFERENCE).num_turns for task in bench.tasks]
    return f"{len(bench.plays)} episodes ran; the reference takes {min(counts)} to {max(counts)} turns"


async def plays_again(bench: Bench) -> str:
    """An episode leaves nothing for the next: later and in another order it goes the same."""
    environment = bench.built().environment
    for task in reversed(bench.tasks):
        for script in reversed(bench.scripts(task)):
            again = await play(bench.stage, environment, task, script, _reading_twice(bench.stage))
            _compare(
                bench,
                task,
                script,
                again,
                "played again later",
                "state is kept from episode to episode, or chance or a clock decides",
            )
    return (
        f"{len(bench.plays)} episodes went the same when they were played again, last first, and left the same at a "
        "second read"
    )


async def plays_together(bench: Bench) -> str:
    """Episodes that run at once share nothing."""
    environment = bench.built().environment
    chosen = [*bench.tasks[:2], *[bench.tasks[0]] * (_ASIDE - 1)]
    scripts = [bench.scripts(task)[0] for task in chosen]
    scripts[-1] = bench.scripts(chosen[-1])[-1]
    gaps: list[float] = []
    watching = asyncio.create_task(_watch_loop(gaps), name="a watch over the event loop")
    try:
        at_once = await together(
            [play(bench.stage, environment, t, s) for t, s in zip(chosen, scripts, strict=True)],
        )
    except EnvironmentFaultError as error:
        raise CheckFailedError(
            f"played beside {len(chosen) - 1} other episodes, as it never did alone, {error}; state is shared between "
            "episodes"
        ) from error
    finally:
        watching.cancel()
    long = [gap for gap in gaps if gap > _STANDSTILL_S]
    if len(long) >= _MOST_STANDSTILLS:
        raise CheckFailedError(
            f"while {len(chosen)} episodes were played at once, the event loop stood still {len(long)} times for up to "
            f"{max(long):.2g} s; every other episode waits meanwhile. An environment awaits, or works in a thread or a "
            "process"
        )
    for task, script, transcript in zip(chosen, scripts, at_once, strict=True):
        _compare(
            bench,
            task,
            script,
            transcript,
            f"played beside {len(chosen) - 1} other episodes",
            "state is shared between episodes",
        )
    return f"{len(chosen)} episodes played at once, of different tasks and of the same, went as alone"


async def plays_elsewhere(bench: Bench) -> str:
    """Another process, another hash seed, another time zone, another second: the same episodes."""
    assert bench.elsewhere is not None, "it is left out where there is no other process"
    saved = await states.first_snapshot(bench)
    bench.stage.at("playing the same episodes in another process", SLOW_S)
    found = bench.there = await bench.elsewhere(replace(bench.order, saved=saved.hex()))
    if "error" in found:
        raise CheckFailedError(f"in another process: {found['error']}")
    revision = bench.built().environment.revision
    if found["revision"] != revision:
        raise CheckFailedError(
            f"the environment's revision is {revision} here and {found['revision']} in another process; it must depend "
            "on code and settings alone"
        )
    tasks = [task.task_id for task in bench.tasks]
    if found["tasks"] != tasks:
        raise CheckFailedError(
            f"the first tasks are {shown(tasks)} here and {shown(found['tasks'])} in another process; equal sizes and "
            "seed give equal tasks everywhere"
        )
    there = cast("Mapping[str, Sequence[Sequence[str]]]", found["plays"])
    for (task_id, script), here in bench.plays.items():
        facts = [Fact(what=what, value=value) for what, value in there.get(f"{task_id} {script}", ())]
        difference = first_difference(here.facts, facts)
        if difference is not None:
            raise CheckFailedError(
                f"{here.where}: {difference} in another process a little later; equal task, seed and actions give the "
                "same everywhere: no clock, no order of hashing, no chance but from the seed"
            )
    return f"{len(bench.plays)} episodes went the same in another process, with another hash seed and time zone"


async def facts_of(bench: Bench) -> Mapping[str, object]:
    """What `plays_elsewhere` compares, as the other process finds it."""
    is_first = True
    environment = bench.built().environment
    plays: dict[str, list[list[str]]] = {}
    for task in bench.tasks:
        for script in bench.scripts(task):
            transcript = await play(bench.stage, environment, task, script, _slow() if is_first else None)
            is_first = False
            plays[f"{task.task_id} {script.name}"] = [[fact.what, fact.value] for fact in transcript.facts]
    tasks = [task.task_id for task in bench.tasks]
    return {
        "revision": environment.revision,
        "tasks": tasks,
        "plays": plays,
        "mistakes": await mistakes.answers_of(bench),
        "restored": await states.restored_facts(bench) if bench.order.saved else [],
    }


def _refuse_strangers(bench: Bench, played: Transcript) -> None:
    """Every turn is opened for somebody who plays."""
    actors = bench.built().environment.actors
    stranger = next((passage.actor for passage in played.passages if passage.actor not in actors), None)
    if stranger is not None:
        raise CheckFailedError(
            f"{played.where}: an observation opens a turn of the actor {stranger!r}, whom no policy plays; the "
            f"environment's actors are {', '.join(sorted(actors))}"
        )


async def _watch_loop(gaps: list[float]) -> None:
    """Write down how long the event loop did nothing else, over and over."""
    while True:
        due = time.monotonic() + _PAUSE_S
        await asyncio.sleep(_PAUSE_S)
        gaps.append(time.monotonic() - due)


def _slow() -> Pace:
    """A pace at which results that depend on elapsed time show it."""
    pauses = [_FIRST_PAUSE_S]

    async def pause() -> None:
        await asyncio.sleep(pauses.pop() if pauses else _PAUSE_S)

    return Pace(pause=pause)


def _reading_twice(stage: Stage) -> Pace:
    """A pace at which the artifacts are taken once more; reading them is no part of an episode."""

    async def look_back(episode: Episode, transcript: Transcript) -> None:
        first = transcript.artifacts
        second = await take_artifacts(stage, episode, f"artifacts, a second time, of {transcript.where}")
        for name in sorted({*first, *second}):
            if first.get(name) != second.get(name):
                raise CheckFailedError(
                    f"{transcript.where}: the artifact {name} was {_told(first.get(name))} and, read a second time, "
                    f"{_told(second.get(name))}; neither a read nor a clock changes what an episode leaves"
                )

    return Pace(look_back=look_back)


def _told(content: bytes | None) -> str:
    return "not there" if content is None else shown(content.decode(errors="backslashreplace"))


def _compare(bench: Bench, task: Task, script: Script, again: Transcript, how: str, why: str) -> None:
    difference = first_difference(bench.played(task, script.name).facts, again.facts)
    if difference is not None:
        raise CheckFailedError(f"{again.where}, {how}: {difference}; {why}. Equal task, seed and actions give the same")
