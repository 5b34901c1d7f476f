"""Somebody else's agent: a function, a program, or one that comes by itself. Each gets an address."""

import asyncio
import contextlib
import inspect
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from rollwright.record import RecordError, Task, canonical_json
from rollwright.rollout.borders import describe, is_cancelled
from rollwright.rollout.gateway.server import Address
from rollwright.rollout.gateway.session import Session

__all__ = ["Agent", "AgentEnd", "ExternalAgent", "FunctionAgent", "ProgramAgent"]

RESULT = "agent_result.json"
KEPT_BYTES = 1 << 16
"""Of what a program writes, the last so many."""
TERM_S = 2.0
"""Between asking a program to end and ending it; and for the rest of its output, once it has ended."""
LOOK_S = 0.02
"""Between two looks at whether a program has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """How an agent ended by itself."""

    failure: str | None = None
    """None: it did not fail."""
    reward: float | None = None
    """What it gave back, where that is a number."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class Agent(Protocol):
    """A kind of agent. A call lives one episode; cancelling it ends all that it started."""

    @property
    def name(self) -> str:
        """Its name in the tables, where an environment's would stand."""
        ...

    @property
    def revision(self) -> str:
        """A digest of what decides its behavior."""
        ...

    async def run(self, address: Address, task: Task, session: Session) -> AgentEnd:
        """Live one episode.

        Args:
            address: to ask for turns.
            task: with its payload.
            session: behind the address; it knows when an agent says that it is done.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent:
    """A function of (base_url, api_key, task). A plain one has a thread, which nobody can end but itself.

    A number that it returns is its reward, as if it had been reported; other JSON is kept as `agent_result.json`.
    """

    function: Callable[[str, str, Task], object]
    name: str
    revision: str = "1"

    async def run(self, address: Address, task: Task, session: Session) -> AgentEnd:
        """Call it; what it raises is its failure."""
        try:
            if inspect.iscoroutinefunction(self.function):
                given = await cast("Awaitable[object]", self.function(address.base_url, address.api_key, task))
            else:
                given = await _in_thread(lambda: self.function(address.base_url, address.api_key, task), self.name)
                if inspect.isawaitable(given):
                    given = await given
            return _end_of(given)
        except Exception as error:  # noqa: BLE001 - an agent's failure is a record
            return AgentEnd(failure=f"agent {self.name} raised {describe(error)}")
        except BaseException as error:  # noqa: BLE001 - code from outside may ask for more than the end of its episode
            if is_cancelled(error):
                raise
            return AgentEnd(failure=f"agent {self.name} gave up: {describe(error)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAgent:
    """A program with the address in its environment and the task, as JSON, on its standard input.

    It gets OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and ROLLWRIGHT_REWARD_URL. Its exit
    status is 0, or it failed; the end of its output is kept as `stdout` and `stderr`.
    """

    command: Sequence[str]
    name: str
    revision: str = "1"
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its environment besides; `dict(os.environ)` gives it this process's own."""
    folder: str | None = None
    """To start in."""

    async def run(self, address: Address, task: Task, session: Session) -> AgentEnd:
        """Start it and wait; where the wait is cancelled, it and all that it started are ended."""
        told = {
            "OPENAI_BASE_URL": address.base_url,
            "OPENAI_API_KEY": address.api_key,
            "ANTHROPIC_BASE_URL": address.root,
            "ANTHROPIC_API_KEY": address.api_key,
            "ROLLWRIGHT_REWARD_URL": f"{address.root}/reward",
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self.variables, **told},
                cwd=self.folder,
                start_new_session=True,
            )
        except OSError as error:
            return AgentEnd(failure=f"agent {self.name} could not be started: {describe(error)}")
        out, errors = bytearray(), bytearray()
        try:
            async with asyncio.TaskGroup() as group:
                passing = {
                    group.create_task(_feed(process, task_json(task)), name=f"input of {self.name}"),
                    group.create_task(_tail(process.stdout, out), name=f"output of {self.name}"),
                    group.create_task(_tail(process.stderr, errors), name=f"errors of {self.name}"),
                }
                status = await _exit_of(process)
                _end_program(process.pid, signal.SIGKILL)  # what it left running may hold its output open
                await asyncio.wait(passing, timeout=TERM_S)
                for one in passing:
                    one.cancel()
        finally:
            await _reap(process)
        artifacts = {"stdout": bytes(out), "stderr": bytes(errors)}
        if status == 0:
            return AgentEnd(artifacts=artifacts)
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        return AgentEnd(failure=f"agent {self.name} {how}: {last}", artifacts=artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAgent:
    """An agent that connects by itself: it is told where, and says at `/end` that it is done."""

    announce: Callable[[Address, Task], Awaitable[None]]
    name: str
    revision: str = "1"

    async def run(self, address: Address, task: Task, session: Session) -> AgentEnd:
        """Tell it, and wait until it says that it is done."""
        try:
            await self.announce(address, task)
        except Exception as error:  # noqa: BLE001 - code from outside; its failure is a record
            return AgentEnd(failure=f"agent {self.name} could not be told of its episode: {describe(error)}")
        failure = await session.finished
        return AgentEnd(failure=None if failure is None else f"agent {self.name} says: {failure}")


def task_json(task: Task) -> bytes:
    """A task as programs get it."""
    payload = cast(object, json.loads(task.payload))
    named = {"task_id": task.task_id, "source": task.source, "revision": task.revision, "split": task.split}
    return json.dumps({**named, "payload": payload}, ensure_ascii=False).encode()


def _end_of(given: object) -> AgentEnd:
    if given is None:
        return AgentEnd()
    if isinstance(given, (bool, int, float)):
        return AgentEnd(reward=float(given))
    try:
        return AgentEnd(artifacts={RESULT: canonical_json(cast("dict[str, str]", given)).encode()})
    except RecordError as error:
        return AgentEnd(failure=f"the agent returned what is neither a number nor JSON: {describe(error)}")


async def _in_thread(work: Callable[[], object], name: str) -> object:
    """Run in a thread that no end of the process waits for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(RuntimeError(describe(error)))

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told to the one who waits
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name=f"agent {name}", daemon=True).start()
    return await done


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read its task
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()


async def _tail(stream: asyncio.StreamReader | None, kept: bytearray) -> None:
    assert stream is not None
    while part := await stream.read(KEPT_BYTES):
        kept += part
        del kept[:-KEPT_BYTES]


async def _exit_of(process: asyncio.subprocess.Process) -> int:
    """Its status, as soon as it has one: `Process.wait` waits for whoever else holds its output open, too."""
    while process.returncode is None:  # noqa: ASYNC110 - nobody is told of it before all of its output is closed
        await asyncio.sleep(LOOK_S)
    return process.returncode


def _end_program(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def _reap(process: asyncio.subprocess.Process) -> None:
    """End the program's whole session, gently first."""
    if process.returncode is not None:
        return
    _end_program(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TERM_S):
            await _exit_of(process)
    _end_program(process.pid, signal.SIGKILL)
    await _exit_of(process)
