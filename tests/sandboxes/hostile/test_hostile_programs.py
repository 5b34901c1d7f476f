"""Programs that attack the sandbox: each ends in a typed result, leaves no process and no trace, and reaches nothing.

Programs of a kind run a few at a time, each in a fresh sandbox, which is at the same time the proof that those before
it left the pool as it was. All tests share one pool.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rollwright.sandboxes import (
    Sandbox,
    Sandboxes,
    SandboxFileError,
    SandboxLimits,
    SandboxProfile,
    SandboxResult,
    open_sandboxes,
)
from tests.sandboxes.hostile.processes import is_stopped, pinned_namespace, processes_within
from tests.sandboxes.hostile.programs import CANARY_VARIABLE, Outside, Program, open_outside, programs

LIMITS = SandboxLimits(
    wall_s=5,
    cpu_s=1,
    memory_bytes=128 * 2**20,
    total_memory_bytes=256 * 2**20,
    processes=24,
    disk_bytes=8 * 2**20,
    output_bytes=4096,
)
AT_ONCE = {"processes": 1, "memory": 1, "time": 3}
"""Programs of a kind that run at the same time; 2 of the others."""
SLACK_S = 30.0
"""What a result may come late on a busy machine; half a second is promised on one that is not."""
FRESH = "readlink /proc/self/ns/pid; ls -A /work /tmp /dev/shm; echo $((6 * 7)) $PYTHONSTARTUP$LD_PRELOAD$PYTHONPATH"
KINDS = tuple(dict.fromkeys(program.kind for program in programs()))


@pytest.fixture(scope="module")
def canary() -> str:
    return f"CANARY-{os.urandom(16).hex()}"


@pytest.fixture(scope="module")
def sandboxes(canary: str) -> Iterator[Sandboxes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY_VARIABLE, canary)
        pool = open_sandboxes(SandboxProfile(limits=LIMITS), num_warm=2)
        yield pool
        pool.close()


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_programs_end_in_typed_results_and_reach_nothing(
    kind: str, canary: str, sandboxes: Sandboxes, tmp_path: Path
):
    chosen = [program for program in programs() if program.kind == kind]
    faults = asyncio.run(_faults_of(chosen, sandboxes, canary, tmp_path))
    assert not faults, "\n".join(faults)


def test_a_file_that_changes_its_kind_is_read_as_itself_or_not_at_all(sandboxes: Sandboxes):
    code = """
import os
open("plain", "w").write("plain")
os.symlink("/proc/self/environ", "link")
os.mkfifo("pipe")
while True:
    for name in ("plain", "link", "pipe"):
        os.link(name, "next", follow_symlinks=False)
        os.rename("next", "trap")
        os.unlink("next") if os.path.lexists("next") else None
"""

    async def race(sandbox: Sandbox) -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(sandbox.program(code, wall_s=0.5), name="swaps")
            while not running.done():
                async with asyncio.timeout(SLACK_S):
                    assert await sandbox.read("trap") in {None, b"plain", b""}
                    await sandbox.files()
        assert running.result().status in {"timeout", "cpu_limit"}

    _in_one_sandbox(sandboxes, race)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "/proc/1/environ",
        "/proc/self/environ",
        "../../../etc/hostname",
        "a/../../x",
        "/dev/zero",
        "",
        "/",
        "a\0b",
        "\ud800",
    ],
)
def test_paths_that_lead_out_of_work_give_nothing_of_the_outside(path: str, sandboxes: Sandboxes):
    async def escape(sandbox: Sandbox) -> None:
        async with asyncio.timeout(SLACK_S):
            try:
                assert not await sandbox.read(path, max_bytes=4096)
            except (ValueError, SandboxFileError):
                pass
            with pytest.raises((ValueError, SandboxFileError)):
                await sandbox.write(path, b"out")
        assert (await sandbox.program("print('alive')")).stdout == "alive\n"

    _in_one_sandbox(sandboxes, escape)


@pytest.mark.parametrize("code", ["\x00", "\ud800", "print('\ud800')", "'" * 3, "\ufeff" * 9, "# coding: hostile\n1"])
def test_code_that_is_no_text_fails_as_the_programs_own_fault(code: str, sandboxes: Sandboxes):
    async def run(sandbox: Sandbox) -> None:
        for call in (sandbox.python, sandbox.program, sandbox.shell):
            try:
                assert (await call(code)).status in {"ok", "failed"}
            except ValueError:
                pass
        assert (await sandbox.program("print('alive')")).stdout == "alive\n"

    _in_one_sandbox(sandboxes, run)


def test_input_that_nobody_reads_holds_no_call(sandboxes: Sandboxes):
    async def run(sandbox: Sandbox) -> None:
        assert (await sandbox.program("print('done')", stdin=bytes(2**22))).stdout == "done\n"
        assert (await sandbox.shell("exec 0<&-; sleep 100", stdin=bytes(2**22), wall_s=0.3)).status == "timeout"

    _in_one_sandbox(sandboxes, run)


def _in_one_sandbox(sandboxes: Sandboxes, act: Callable[[Sandbox], Awaitable[None]]) -> None:
    async def run() -> None:
        async with sandboxes.take() as sandbox:
            await act(sandbox)

    asyncio.run(run())


async def _faults_of(chosen: list[Program], sandboxes: Sandboxes, canary: str, folder: Path) -> list[str]:
    """Run programs of one kind; a sentence for everything that went against the table."""
    async with open_outside(folder) as outside, sandboxes.take() as neighbor:
        await neighbor.write("neighbor.txt", outside.canary.encode())
        settings = outside.settings()
        turns = asyncio.Semaphore(AT_ONCE.get(chosen[0].kind, 2))
        faults: list[str] = []

        async def attack(program: Program) -> None:
            async with turns:
                for fault in await _attack(program, sandboxes, outside, (canary, outside.canary)):
                    faults.append(f"{program.file}: {fault}")

        async with asyncio.TaskGroup() as group:
            for program in chosen:
                group.create_task(attack(program), name=program.file)
        last = await neighbor.program("print(open('neighbor.txt').read())")
        faults += [] if last.stdout == f"{outside.canary}\n" else [f"the neighbor was touched: {last}"]
        faults += [f"the canary server was reached: {who}" for who in outside.reached]
        faults += [f"a mark of a program is outside: {place}" for place in outside.marks()]
        faults += [] if outside.settings() == settings else [f"settings changed: {settings} {outside.settings()}"]
    return faults


async def _attack(program: Program, sandboxes: Sandboxes, outside: Outside, canaries: tuple[str, str]) -> list[str]:
    faults: list[str] = []
    namespace = ""
    with contextlib.ExitStack() as pins:
        try:
            async with sandboxes.take() as sandbox:
                namespace, *rest = (await sandbox.shell(FRESH)).stdout.split()
                if rest != ["/dev/shm:", "/tmp:", "/work:", "42"]:
                    faults.append(f"a fresh sandbox is not fresh: {rest}")
                pins.enter_context(pinned_namespace(namespace))
                before = processes_within(namespace)
                started = time.monotonic()
                result = await _run(program, sandbox, outside)
                faults += _faults_of_result(program, result, time.monotonic() - started, canaries)
                left = await _wait_until_few(namespace, before)
                if len(left) > 1 or not all(is_stopped(process) for process in left):
                    faults.append(f"processes are left after the call: {left}; {result}")
                faults += await _faults_of_files(program, sandbox, canaries)
                faults += await _faults_of_later_calls(program, sandbox)
        except Exception as error:  # noqa: BLE001 - told with the program that it came from
            faults.append(f"raised {error!r}")
        if left := await _wait_until_few(namespace, set(), most=0):
            faults.append(f"processes are left after the episode: {left}")
    return faults


async def _run(program: Program, sandbox: Sandbox, outside: Outside) -> SandboxResult:
    call = {"python": sandbox.python, "program": sandbox.program, "shell": sandbox.shell}[program.call]
    return await call(program.code(outside), wall_s=program.wall_s)


async def _wait_until_few(namespace: str, before: set[int], *, most: int = 1) -> set[int]:
    """Living processes beyond those before: at most so many, all of them stopped, or those that stay."""
    until = time.monotonic() + SLACK_S
    while True:
        left = processes_within(namespace) - before
        is_quiet = len(left) <= most and all(is_stopped(process) for process in left)
        if is_quiet or time.monotonic() > until:
            return left
        await asyncio.sleep(0.01)


def _faults_of_result(program: Program, result: SandboxResult, took_s: float, canaries: tuple[str, str]) -> list[str]:
    faults: list[str] = []
    text = result.stdout + result.stderr
    if result.status not in program.statuses or (program.statuses == ("ok",) and "ATTEMPTED" not in result.stdout):
        faults.append(f"not one of {program.statuses}: {result}")
    if program.exit_code is not None and result.exit_code != program.exit_code:
        faults.append(f"exit code {result.exit_code}, not {program.exit_code}: {result}")
    if result.stdout == "FORGED" or "BREACH" in result.stdout or any(canary in text for canary in canaries):
        faults.append(f"got through: {text[:1500]}")
    if max(len(result.stdout.encode()), len(result.stderr.encode())) > 2 * LIMITS.output_bytes:
        faults.append(f"keeps {len(result.stdout)} and {len(result.stderr)} characters")
    if took_s > (due_s := program.ends_in_s or program.wall_s) + SLACK_S:
        faults.append(f"took {took_s:.2f} s, due {due_s} s")
    return faults


async def _faults_of_files(program: Program, sandbox: Sandbox, canaries: tuple[str, str]) -> list[str]:
    """What a program left in /work is taken by whoever reads and writes there for what it is."""
    faults: list[str] = []
    for path in ("trap", "trap/inner", "rooted/etc/hostname", "imported"):
        async with asyncio.timeout(SLACK_S):
            content = await sandbox.read(path, max_bytes=1024)
        if content is not None and (
            program.is_no_file
            or path != "trap"
            or len(content) > 1024
            or any(canary.encode() in content for canary in canaries)
        ):
            faults.append(f"{path} gives {content[:200]!r}")
    async with asyncio.timeout(SLACK_S):
        "".join(await sandbox.files()).encode()
    for path in ("trap", "trap/inner", "rooted/tmp/out"):
        async with asyncio.timeout(SLACK_S):
            with contextlib.suppress(SandboxFileError):
                await sandbox.write(path, b"x")
                if await sandbox.read(path) != b"x":
                    faults.append(f"{path} is written and not read")
    return faults


async def _faults_of_later_calls(program: Program, sandbox: Sandbox) -> list[str]:
    """The sandbox serves what comes next."""
    later = await sandbox.program("print(len([1, 2, 3]), int('42'))")
    is_served = (later.status, later.stdout) == ("ok", "3 42\n")
    is_told = program.closes_work and (later.status, "/work" in later.stderr) == ("failed", True)
    faults = [] if is_served or is_told else [f"the next program fails: {later}"]
    cell = await sandbox.python("1 + 1", wall_s=1)
    # A session that forks in a handler says it as often as it is there: its own doing, within its own call.
    if cell.status == "ok" and not set(cell.stdout.split()) <= {"2"}:
        faults.append(f"the next cell says {cell}")
    return faults
