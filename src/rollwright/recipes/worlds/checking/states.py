"""State: its hash, its snapshot, and the end after which there is none."""

import json
from dataclasses import dataclass
from typing import cast

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds.checking.bench import REFERENCE, Bench
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, EnvironmentFaultError, shown
from rollwright.recipes.worlds.checking.playing import (
    SEED,
    Fact,
    Move,
    Pace,
    Script,
    Transcript,
    first_difference,
    go_on,
    play,
)
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Episode,
    NotSnapshottableError,
    StepResult,
    Task,
)

__all__ = ["ends_once", "first_snapshot", "hashes_states", "restored_facts", "snapshots"]

_SNAPSHOT_TASKS = 2
_SNAPSHOT_POINTS = 4
_HIDDEN_GROUPS = 3
"""Groups of moments of one hash that are looked behind."""


async def hashes_states(bench: Bench) -> str:
    """Every observation has a hash; it changes with the state, and equal hashes mean equal states."""
    for transcript in bench.plays.values():
        missing = next((n for n, found in enumerate(transcript.hashes) if not found), None)
        if missing is not None:
            raise CheckFailedError(
                f"{transcript.where}: observation {missing + 1} has no state_hash; credit by states and replay need one"
            )
        _refuse_constant(transcript)
    for task in bench.tasks:
        _refuse_contradiction([t for (task_id, _), t in bench.plays.items() if task_id == task.task_id])
    await _refuse_hidden(bench, bench.tasks[0])
    distinct = {found for transcript in bench.plays.values() for found in transcript.hashes}
    if len(distinct) == 1 and len(bench.tasks) > 1:
        raise CheckFailedError(
            f"the state_hash is {shown(distinct.pop())} in every state of {len(bench.tasks)} tasks; it must change "
            "with the state"
        )
    return f"{len(distinct)} different states in {len(bench.plays)} episodes, and no two that only look equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """Where a snapshot was taken."""

    turns: int
    calls: int
    facts: int
    state_hash: str | None
    saved: bytes


async def snapshots(bench: Bench) -> str:
    """An episode goes on from its snapshot as if it had never been left; or says that it cannot."""
    count = 0
    _refuse_elsewhere(bench)
    for task in bench.tasks[:_SNAPSHOT_TASKS]:
        script = bench.reference(task)
        points = await _snapshot(bench, task, script)
        if points is None:
            return "NotSnapshottableError: its episodes start again from task and seed"
        step = max(1, len(points) // _SNAPSHOT_POINTS)
        for point in points[::step]:
            await _restore(bench, task, script, point)
            count += 1
        await _refuse_garbage(bench, task)
    return f"{count} episodes went on from a snapshot as if they had never been left"


async def first_snapshot(bench: Bench) -> bytes:
    """Before the second turn of the first task's reference; nothing where there is none. What is wrong, others say."""
    task = bench.tasks[0]
    saved: list[bytes] = []

    async def look(episode: Episode, transcript: Transcript) -> None:
        if transcript.num_turns == 1:
            saved.append(bytes(await episode.snapshot()))

    try:
        first = Script(name=REFERENCE, turns=bench.reference(task).turns[:1], goes_on=False)
        await play(bench.stage, bench.built().environment, task, first, Pace(look=look))
    except Exception:  # noqa: BLE001 - a world from outside may raise anything
        return b""
    return saved[0] if saved else b""


async def restored_facts(bench: Bench) -> list[list[str]]:
    """How the first task's reference goes on from the snapshot of an order; what goes wrong is a fact too."""
    task = bench.tasks[0]
    script = bench.reference(task)
    calls = len(script.turns[0].calls)
    again = Transcript(task=task, script=script.name, num_turns=1, statuses=[""] * calls)
    where, saved = f"{again.where}, from a snapshot", bytes.fromhex(bench.order.saved)
    try:
        async with bench.stage.opened(bench.built().environment, task, SEED, where=where, snapshot=saved) as episode:
            rest = Script(name=script.name, turns=script.turns[1:])
            await go_on(bench.stage, episode, rest, again, Pace())
    except CheckFailedError as error:
        return [["what came", str(error)]]
    return [[fact.what, fact.value] for fact in again.facts[again.begun_at :]]


def _refuse_elsewhere(bench: Bench) -> None:
    """What was saved here goes on in another process as it went on here."""
    there = [Fact(what=what, value=value) for what, value in cast("list[list[str]]", bench.there.get("restored", []))]
    if not there:
        return
    original = bench.played(bench.tasks[0], REFERENCE)
    difference = first_difference(original.facts[-len(there) :], there)
    if difference is not None:
        raise CheckFailedError(
            f"{original.where}, from its snapshot before turn 2, in another process: {difference}; the snapshot does "
            "not hold the whole state"
        )


async def ends_once(bench: Bench) -> str:
    """After its end an episode takes no further turn."""
    task = bench.tasks[0]
    environment, script = bench.built().environment, bench.reference(task)
    transcript = Transcript(task=task, script=script.name)
    async with bench.stage.opened(environment, task, SEED, where=transcript.where) as episode:
        await go_on(bench.stage, episode, script, transcript, Pace())
        late = Action(actor=next(iter(environment.actors)), turn=transcript.num_turns, text="", calls=())
        where = f"a step after the end of {transcript.where}"
        try:
            answer = await bench.stage.ask(where, lambda: episode.step(late))
        except EnvironmentFaultError as error:
            if isinstance(error.__cause__, EnvironmentBrokenError):
                return "a step after the end is refused"
            raise
    raise CheckFailedError(
        f"{where} was answered ({_said(answer)}); an ended episode raises EnvironmentBrokenError there, so that "
        "nothing is trained behind its end"
    )


def _refuse_constant(transcript: Transcript) -> None:
    if transcript.script != REFERENCE or len(transcript.hashes) < 2 or len(set(transcript.hashes)) > 1:
        return
    raise CheckFailedError(
        f"{transcript.where}: the state_hash is {shown(transcript.hashes[0])} in all {len(transcript.hashes)} "
        "observations, although turns were taken; it must change with the state"
    )


def _refuse_contradiction(transcripts: list[Transcript]) -> None:
    """Equal states answer equal actions equally, budgets aside."""
    known: dict[tuple[str, str], tuple[Move, Transcript]] = {}
    for transcript in transcripts:
        for move in transcript.moves:
            before, other = known.setdefault((move.before, move.action), (move, transcript))
            if move.after is None or before.after is None or "limit" in (*_statuses(move), *_statuses(before)):
                continue
            if _results(move) != _results(before):
                raise CheckFailedError(
                    f"task {transcript.task.task_id}: turn {before.turn} of {other.script} and turn {move.turn} of "
                    f"{transcript.script} are the same action in states of one state_hash ({shown(move.before)}), and "
                    f"what came was {shown(_results(before))} and {shown(_results(move))}; states that differ need "
                    "hashes that differ"
                )


async def _refuse_hidden(bench: Bench, task: Task) -> None:
    """Moments of one hash, asked the same with every tool, give the same; budgets aside."""
    probe = bench.probe()
    moments: dict[str, list[tuple[Script, int]]] = {}
    for script in bench.scripts(task):
        for move in bench.played(task, script.name).moves:
            moments.setdefault(move.before, []).append((script, move.turn - 1))
    groups = sorted((m for m in moments.values() if len(m) > 1), key=len, reverse=True)
    if not probe.calls:
        return
    for group in groups[:_HIDDEN_GROUPS]:
        found = [await _asked(bench, task, script, turns, probe) for script, turns in (group[0], group[-1])]
        one, other = found
        if one is None or other is None or one.before != other.before:
            continue
        if "limit" not in (*_statuses(one), *_statuses(other)) and _results(one) != _results(other):
            names = [f"turn {turns + 1} of {script.name}" for script, turns in (group[0], group[-1])]
            raise CheckFailedError(
                f"task {task.task_id}: {' and '.join(names)} have one state_hash ({shown(one.before)}), and asked the "
                f"same there, it answered {shown(_results(one))} and {shown(_results(other))}; states that differ need "
                "hashes that differ"
            )


async def _asked(bench: Bench, task: Task, script: Script, turns: int, probe: DemonstratedTurn) -> Move | None:
    """What comes of a turn after some turns of a script."""
    silence = (DemonstratedTurn(text=""),) * max(0, turns - len(script.turns))
    asking = Script(name=script.name, turns=(*script.turns[:turns], *silence, probe), goes_on=False)
    moves = (await play(bench.stage, bench.built().environment, task, asking)).moves
    return moves[-1] if len(moves) == turns + 1 else None


def _results(move: Move) -> str:
    return json.dumps(json.loads(move.came)[0])


def _statuses(move: Move) -> list[str]:
    return [status for status, _ in json.loads(move.came)[0]]


async def _snapshot(bench: Bench, task: Task, script: Script) -> list[_Point] | None:
    """Snapshots of every state of a play; None where the environment takes none."""
    points: list[_Point] = []
    refusals: list[NotSnapshottableError] = []

    async def look(episode: Episode, transcript: Transcript) -> None:
        where = f"snapshot before turn {transcript.num_turns + 1} of {transcript.where}"
        try:
            saved = await bench.stage.ask(where, episode.snapshot)
        except EnvironmentFaultError as error:
            if not isinstance(error.__cause__, NotSnapshottableError):
                raise
            refusals.append(error.__cause__)
            return
        if not isinstance(saved, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - from outside
            raise CheckFailedError(f"{where} is a {type(saved).__name__}; it must be bytes")
        points.append(
            _Point(
                turns=transcript.num_turns,
                calls=len(transcript.statuses),
                facts=len(transcript.facts),
                state_hash=transcript.hashes[-1],
                saved=saved,
            )
        )

    watched = await play(bench.stage, bench.built().environment, task, script, Pace(look=look))
    difference = first_difference(bench.played(task, script.name).facts, watched.facts)
    if difference is not None:
        raise CheckFailedError(f"{watched.where}, with snapshots taken: {difference}; taking one must change nothing")
    return None if refusals and not points else points


async def _restore(bench: Bench, task: Task, script: Script, point: _Point) -> None:
    original = bench.played(task, script.name)
    rest = Script(name=script.name, turns=script.turns[point.turns :])
    again = Transcript(
        task=task, script=script.name, num_turns=point.turns, statuses=list(original.statuses[: point.calls])
    )
    where = f"{original.where}, from its snapshot before turn {point.turns + 1}"
    environment = bench.built().environment
    async with bench.stage.opened(environment, task, SEED, where=where, snapshot=point.saved) as episode:
        await go_on(bench.stage, episode, rest, again, Pace())
    found = again.hashes[0] if again.hashes else None
    if found != point.state_hash:
        raise CheckFailedError(
            f"{where}: the state_hash was {shown(point.state_hash)} and is {shown(found)}; the snapshot does not hold "
            "the whole state"
        )
    difference = first_difference(original.facts[point.facts :], again.facts[again.begun_at :])
    if difference is not None:
        raise CheckFailedError(f"{where}: {difference}; the snapshot does not hold the whole state")


async def _refuse_garbage(bench: Bench, task: Task) -> None:
    where = f"task {task.task_id}, from a snapshot that is none"
    environment = bench.built().environment
    try:
        async with bench.stage.opened(environment, task, SEED, where=where, snapshot=b"\xff no snapshot") as episode:
            await bench.stage.ask(f"begin of {where}", episode.begin)
    except EnvironmentFaultError as error:
        if isinstance(error.__cause__, EnvironmentBrokenError | NotSnapshottableError):
            return
        raise
    raise CheckFailedError(f"{where}: it was opened; what cannot be restored is refused by EnvironmentBrokenError")


def _said(step: StepResult) -> str:
    return f"{len(step.observations)} observations, {len(step.rewards)} rewards, end {step.end!r}"
