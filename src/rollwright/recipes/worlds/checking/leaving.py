"""Leaving an episode, early, late, twice or by cancelling, ends all that it started."""

import asyncio
import os
import random
import time
from collections.abc import Mapping

from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.footprint import Footprint, descendants, footprint
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, CheckHungError, EnvironmentFaultError, shown
from rollwright.recipes.worlds.checking.playing import SEED, Pace, Script, play
from rollwright.recipes.worlds.checking.process_state import process_state
from rollwright.recipes.worlds.checking.stage import SLOW_S, Stage, describe
from rollwright.record import Task

__all__ = ["closes", "leaves_nothing", "leaves_well", "measures_speed"]

_ROUNDS = 4
_SETTLE_S = 1.5
_MOST_THREADS = 8
"""Threads of plain functions that may be left behind: nothing can end a thread."""
_PHASES = ("opening", "begin", "call", "step")
_DELAYS_S = (0.0, 0.005)
_SPEED_S = 0.5


class _MarkerError(Exception):
    """Raised inside an episode by the check itself."""


async def leaves_well(bench: Bench) -> str:
    """Early, twice, and with an error inside."""
    environment, task = bench.built().environment, bench.tasks[0]
    where = f"task {task.task_id}"
    await _refuse_process_changes(bench, where)
    context = environment.open(task, seed=SEED)
    episode = await bench.stage.ask(f"opening {where}", context.__aenter__)
    await bench.stage.ask(f"begin of {where}", episode.begin)
    for time_of in ("", " a second time"):
        await bench.stage.ask(f"leaving {where}{time_of}", lambda: context.__aexit__(None, None, None))
    try:
        async with environment.open(task, seed=SEED):
            raise _MarkerError
    except _MarkerError:
        return "an episode can be left at once, twice, and by an error, which passes through"
    except Exception as error:
        raise CheckFailedError(
            f"leaving {where} by an error raised {shown(describe(error))} instead; it passes through"
        ) from error
    raise CheckFailedError(f"leaving {where} by an error hid the error; what was raised inside passes through")


async def _refuse_process_changes(bench: Bench, where: str) -> None:
    """Two episodes that are left at once leave the process as it was: its folder, variables, signals, and chance."""
    folder, chance = bench.folder, random.getstate()
    built, now = bench.state, process_state()
    built.put_back()  # What was imported on the way may have set something once; an episode that sets it does so again.
    drawn: list[float] = []
    try:
        for seed in (1, 2):
            random.seed(seed)
            async with bench.stage.opened(
                bench.built().environment, bench.tasks[0], SEED, where=f"{where}, at once"
            ) as episode:
                await bench.stage.ask(f"begin of {where}", episode.begin)
            drawn.append(random.random())
        moved_to = os.getcwd()
        set_now, handled = built.changed_variables(), built.changed_signals()
    finally:
        random.setstate(chance)
        os.chdir(folder)
        now.put_back()
    if moved_to != folder:
        raise CheckFailedError(
            f"{where}: an episode changed the working folder of the whole process from {shown(folder)} to "
            f"{shown(moved_to)}, where every other episode finds itself too; name files by whole paths"
        )
    if set_now:
        raise CheckFailedError(
            f"{where}: an episode changed {', '.join(set_now[:5])} in the environment variables of the whole "
            "process, where every other episode reads them too; give them to the processes that it starts"
        )
    if handled:
        raise CheckFailedError(
            f"{where}: an episode changed what the whole process does on {', '.join(handled[:5])}; leave its signals "
            "to whoever started it"
        )
    if drawn[0] == drawn[1]:
        raise CheckFailedError(
            f"{where}: an episode seeds `random` for the whole process, and with it what others draw; draw from a "
            "`random.Random(seed)` of its own"
        )


async def leaves_nothing(bench: Bench) -> str:
    """Episodes that are cancelled wherever they are leave no task, thread, process or file."""
    await _round(bench)
    before = first = footprint(bench.scratch)
    growing: set[str] | None = None
    for _ in range(_ROUNDS):
        await _round(bench)
        after = await _settled(bench, before)
        grown = set(after.grown_since(before))
        growing = grown if growing is None else growing & grown
        if not growing:
            return f"{len(_PHASES) * len(_DELAYS_S)} cancelled episodes and a whole one left nothing behind"
        before = after
    more = _unforgiven(before.grown_since(first), growing or set())
    if more:
        what = ", ".join(f"{count} {name}" for name, count in more.items())
        raise CheckFailedError(
            f"task {bench.tasks[0].task_id}: {what} were left behind by {_ROUNDS} rounds of episodes, most of them "
            "cancelled, and each round left more; leaving the context ends all that the episode started"
        )
    return "only threads of plain functions were left behind, within their bound"


async def closes(bench: Bench) -> str:
    """Closing the world ends its processes."""
    world = bench.built()
    bench.stage.at("closing the world", SLOW_S)
    try:
        await asyncio.to_thread(world.close)
    except Exception as error:
        raise CheckFailedError(f"closing the world raised {shown(describe(error))}") from error
    deadline = time.monotonic() + bench.stage.limit_s / 2
    while left := descendants(os.getpid()) - bench.others:
        if time.monotonic() > deadline:
            raise CheckFailedError(
                f"{len(left)} processes live on after the world was closed; its `close` ends what it started"
            )
        await asyncio.sleep(0.02)
    return "closing the world leaves no process"


async def measures_speed(bench: Bench) -> str:
    """How many reference episodes and turns a second; printed, never judged."""
    stage = Stage(limit_s=bench.stage.limit_s, tell=lambda where, allowed_s: None)
    plays: list[tuple[Task, Script]] = [(task, bench.reference(task)) for task in bench.tasks]
    bench.stage.at("measuring the throughput", _SPEED_S + bench.stage.limit_s)
    started, turns, episodes = time.monotonic(), 0, 0
    while time.monotonic() - started < _SPEED_S:
        task, script = plays[episodes % len(plays)]
        turns += (await play(stage, bench.built().environment, task, script)).num_turns
        episodes += 1
    seconds = time.monotonic() - started
    return f"{episodes / seconds:,.0f} episodes/s, {turns / seconds:,.0f} turns/s, one after the other"


async def _round(bench: Bench) -> None:
    task = bench.tasks[0]
    script = bench.reference(task)
    for phase in _PHASES:
        for delay_s in _DELAYS_S:
            await _cancelled(bench, task, script, phase, delay_s)
    await play(bench.stage, bench.built().environment, task, script)


async def _cancelled(bench: Bench, task: Task, script: Script, phase: str, delay_s: float) -> None:
    """Play, and cancel it where it has come to a phase."""
    places: list[str] = [""]

    def tell(where: str, allowed_s: float) -> None:
        places.append(where)
        bench.stage.at(f"{where}, to be cancelled", allowed_s)

    limit_s = bench.stage.limit_s
    stage = Stage(limit_s=limit_s, tell=tell)
    playing = asyncio.create_task(play(stage, bench.built().environment, task, script, Pace()), name="a play")
    deadline = time.monotonic() + limit_s
    # A foreign episode has no event for the place at which it is.
    while not (playing.done() or places[-1].startswith(phase) or time.monotonic() > deadline):  # noqa: ASYNC110 - it gives no event to wait for
        await asyncio.sleep(0)
    await asyncio.sleep(delay_s)
    where = places[-1]
    was_cancelled = playing.cancel()
    done, _ = await asyncio.wait({playing}, timeout=limit_s)
    if not done:
        raise CheckHungError(f"{where} did not end within {limit_s:g} s of being cancelled")
    if playing.cancelled():
        return
    error = playing.exception()
    if isinstance(error, EnvironmentFaultError) and not was_cancelled:
        raise error
    if error is not None:
        raise CheckFailedError(f"cancelling {where} raised {shown(describe(error))}; the cancelling passes through")
    if was_cancelled:
        raise CheckFailedError(f"cancelling {where} was ignored: the episode played on to its end")


async def _settled(bench: Bench, before: Footprint) -> Footprint:
    """The footprint once it has shrunk to what was before, or after a while."""
    deadline = time.monotonic() + min(_SETTLE_S, bench.stage.limit_s)
    while True:
        after = footprint(bench.scratch)
        if not after.grown_since(before) or time.monotonic() > deadline:
            return after
        await asyncio.sleep(0.02)


def _unforgiven(grown: Mapping[str, int], growing: set[str]) -> Mapping[str, int]:
    found = {name: count for name, count in grown.items() if name in growing}
    if found.get("threads", 0) <= _MOST_THREADS:
        found.pop("threads", None)
    return found
