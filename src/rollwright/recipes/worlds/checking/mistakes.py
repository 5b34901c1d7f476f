"""What a policy gets wrong is answered; what a task gets wrong breaks the environment by name."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import cast

from rollwright.environments import LimitedEnvironment
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, EnvironmentFaultError, shown
from rollwright.recipes.worlds.checking.playing import SEED
from rollwright.recipes.worlds.checking.reading import read_result, read_step
from rollwright.recipes.worlds.checking.schemas import BadArguments, bad_arguments, plausible
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Episode,
    NotSnapshottableError,
    Task,
    ToolRequest,
    ToolResult,
)

__all__ = ["answers_bad_calls", "answers_of", "answers_bad_turns", "declares_limits", "refuses_bad_tasks"]

_MOST_COUNTED = 200
_MOST_COMPARED = 12
"""Bad calls whose answers are compared with those in another process."""
_MARK_CHARACTERS = 80
"""Of the mark that says what was cut; it comes on top."""
_ODD = "\x00\u202e<|im_end|></tool_call>\N{GRINNING FACE}"
_TURNS = {
    "an empty text": Action(actor="", turn=0, text="", calls=()),
    "100,000 letters": Action(actor="", turn=0, text="a" * 100_000, calls=()),
    "odd characters": Action(actor="", turn=0, text=_ODD, calls=()),
    "a call that could not be read": Action(
        actor="", turn=0, text="", calls=(), parse_error="the tool call is not valid JSON"
    ),
}
_BAD_PAYLOADS = ("{}", "[]", "no JSON")


async def answers_bad_calls(bench: Bench) -> str:
    """A bad call gets a result with a status and a text; the episode goes on."""
    there = cast("Mapping[str, str]", bench.there.get("mistakes", {}))
    count = 0
    for tool, bad in islice(_bad_calls(bench), bench.order.most_bad_calls):
        where = f"a call of {shown(tool)} with {bad.kind}, task {bench.tasks[0].task_id},"
        try:
            answer = await _call(bench, tool, bad, where)
        except EnvironmentFaultError as error:
            raise CheckFailedError(
                f"{where} raised {shown(str(error.__cause__) or type(error.__cause__).__name__)} "
                f"({type(error.__cause__).__name__}); what a policy asks wrongly is answered by a ToolResult with a "
                "status and a text that it can read"
            ) from error
        if there.get(where, answer) != answer:
            raise CheckFailedError(
                f"{where} was answered with {shown(answer)} and, in another process, with {shown(there[where])}; equal "
                "task, seed and actions give the same everywhere"
            )
        count += 1
    return f"{count} bad calls were answered by a status and a text"


async def answers_of(bench: Bench) -> Mapping[str, str]:
    """What bad calls are answered, for comparison; those that are not answered are left out."""
    found: dict[str, str] = {}
    for tool, bad in islice(_bad_calls(bench), _MOST_COMPARED):
        where = f"a call of {shown(tool)} with {bad.kind}, task {bench.tasks[0].task_id},"
        with suppress(CheckFailedError):
            found[where] = await _call(bench, tool, bad, where)
    return found


async def answers_bad_turns(bench: Bench) -> str:
    """Empty, huge and odd turns are answered by an observation or an end."""
    task = bench.tasks[0]
    environment = bench.built().environment
    for kind, turn in _TURNS.items():
        where = f"a turn of {kind}, task {task.task_id},"
        async with bench.stage.opened(environment, task, SEED, where=where) as episode:
            begun = read_step(await bench.stage.ask(f"begin of {where}", episode.begin), where)
            await _step(bench, episode, begun.observations[0].actor, turn, where)
    return f"turns of {', '.join(_TURNS)} were answered"


async def refuses_bad_tasks(bench: Bench) -> str:
    """A task that cannot be read is EnvironmentBrokenError, not any other error."""
    known = bench.tasks[0]
    refused = 0
    for payload in _BAD_PAYLOADS:
        task = Task(task_id="check/0", source=known.source, revision=known.revision, split=known.split, payload=payload)
        try:
            where = f"a task with payload {payload!r}"
            async with bench.stage.opened(bench.built().environment, task, SEED, where=where) as episode:
                await bench.stage.ask(f"begin of {where}", episode.begin)
        except EnvironmentFaultError as error:
            if not isinstance(error.__cause__, EnvironmentBrokenError):
                raise
            refused += 1
    return f"{refused} of {len(_BAD_PAYLOADS)} tasks that cannot be read broke the environment by its own error"


async def declares_limits(bench: Bench) -> str:
    """Limits that are declared hold."""
    environment = bench.built().environment
    if not isinstance(environment, LimitedEnvironment):
        return "it declares none (`limits`); those of the rollout hold alone"
    limits = dict(environment.limits)
    wrong = next((name for name, value in limits.items() if not value >= 0), None)
    if wrong is not None:
        raise CheckFailedError(f"the limit {wrong} is {shown(limits[wrong])}; it must be a number of at least 0")
    most = limits.get("calls")
    longest = limits.get("result_characters")
    if longest is not None:
        _refuse_long(bench, longest)
    if most is not None and most <= _MOST_COUNTED and bench.tools:
        await _exceed(bench, int(most))
        await _exceed_restored(bench, int(most))
    return ", ".join(f"{name} {value:g}" for name, value in limits.items())


def _bad_calls(bench: Bench) -> Iterator[tuple[str, BadArguments]]:
    unknown = BadArguments(kind="no such tool", text="{}")
    for tool in ("no_such_tool", "", "x" * 10_000, _ODD):
        yield tool, unknown
    for name, face in bench.tools.items():
        yield from ((name, bad) for bad in bad_arguments(face.parameters))


async def _call(bench: Bench, tool: str, bad: BadArguments, where: str) -> str:
    """Status and text."""
    environment, task = bench.built().environment, bench.tasks[0]
    async with bench.stage.opened(environment, task, SEED, where=where) as episode:
        begun = read_step(await bench.stage.ask(f"begin of {where}", episode.begin), where)
        result = await _answer(bench, episode, ToolRequest(call_id="e/c0", tool=tool, arguments=bad.text), where)
        if bad.is_refused and result.status == "ok":
            raise CheckFailedError(f"{where} was answered with status 'ok': {shown(result.text)}")
        if bad.is_refused and not result.text.strip():
            raise CheckFailedError(f"{where} was answered with status {result.status!r} and no text to learn from")
        turn = Action(actor="", turn=0, text="", calls=(result,))
        await _step(bench, episode, begun.observations[0].actor, turn, f"the turn after {where}")
    return f"{result.status}: {result.text}"


async def _answer(bench: Bench, episode: Episode, request: ToolRequest, where: str) -> ToolResult:
    return read_result(await bench.stage.ask(where, lambda: episode.call(request)), request, where)


async def _step(bench: Bench, episode: Episode, actor: str, turn: Action, where: str) -> None:
    action = Action(actor=actor, turn=0, text=turn.text, calls=turn.calls, parse_error=turn.parse_error)
    read_step(await bench.stage.ask(where, lambda: episode.step(action)), where)


def _refuse_long(bench: Bench, longest: float) -> None:
    for transcript in bench.plays.values():
        found = max((len(p.text) for p in transcript.passages if p.kind == "tool"), default=0)
        if found > longest + _MARK_CHARACTERS:
            raise CheckFailedError(
                f"{transcript.where}: result_characters is declared as {longest:g}, and a result had {found:,} "
                "characters; longer ones are cut with a mark (`rollwright.environments.cut_text`)"
            )


async def _called(bench: Bench, episode: Episode, times: int, where: str) -> ToolResult | None:
    """The answer to the last of several calls of the first tool."""
    name, face = next(iter(bench.tools.items()))
    result: ToolResult | None = None
    for number in range(times):
        request = ToolRequest(call_id=f"e/c{number}", tool=name, arguments=plausible(face.parameters))
        result = await _answer(bench, episode, request, f"call {number + 1} of {name}, {where},")
    return result


async def _exceed_restored(bench: Bench, most: int) -> None:
    """A snapshot holds what was used up of a limit."""
    environment, task = bench.built().environment, bench.tasks[0]
    where = f"task {task.task_id}"
    async with bench.stage.opened(environment, task, SEED, where=where) as episode:
        begun = read_step(await bench.stage.ask(f"begin of {where}", episode.begin), where)
        result = await _called(bench, episode, 1, where)
        if result is None or result.status == "limit":
            return
        await _step(
            bench, episode, begun.observations[0].actor, Action(actor="", turn=0, text="", calls=(result,)), where
        )
        try:
            saved = await bench.stage.ask(f"snapshot of {where}", episode.snapshot)
        except EnvironmentFaultError as error:
            if isinstance(error.__cause__, NotSnapshottableError):
                return
            raise
    where = f"task {task.task_id}, from a snapshot after one call"
    async with bench.stage.opened(environment, task, SEED, where=where, snapshot=saved) as episode:
        await bench.stage.ask(f"begin of {where}", episode.begin)
        result = await _called(bench, episode, most, where)
    if result is None or result.status != "limit":
        raise CheckFailedError(
            f"{where}: {most} calls are declared as the limit, and {most} more were answered, the last with status "
            f"{result.status if result else None!r}; the snapshot does not hold how many were made"
        )


async def _exceed(bench: Bench, most: int) -> None:
    where = f"task {bench.tasks[0].task_id}"
    async with bench.stage.opened(bench.built().environment, bench.tasks[0], SEED, where=where) as episode:
        await bench.stage.ask(f"begin of {where}", episode.begin)
        result = await _called(bench, episode, most + 1, where)
    if result is None or result.status != "limit":
        raise CheckFailedError(
            f"{where}: {most} calls are declared as the limit, and call {most + 1} was answered with status "
            f"{result.status if result else None!r}; 'limit' is due"
        )
