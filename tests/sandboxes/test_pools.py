"""The life of a pool: refusals, bounds, several loops, and an end that leaves nothing."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from rollwright.sandboxes import (
    Isolation,
    Sandbox,
    SandboxError,
    Sandboxes,
    SandboxProfile,
    SandboxSetupError,
    SandboxUnavailableError,
    open_sandboxes,
)
from rollwright.sandboxes.self_check import PROBE

from .conftest import LIMITS

GONE_S = 60.0
SLEEP_S = 100_000_000 + os.getpid()
"""By which this process knows its own sleepers."""


def descendants(pid: int) -> set[int]:
    """Processes below this one, by who started whom."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        below = {child for child, parent in parents.items() if parent == above}
        found |= below
        waiting += below
    return found


def wait_gone(pids: set[int]) -> set[int]:
    """What is left of them after a while, zombies of another parent aside."""
    deadline = time.monotonic() + GONE_S
    while (left := {pid for pid in pids if is_running(pid)}) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def value(pool: Sandboxes, code: str) -> str:
    async with pool.take() as sandbox:
        return (await sandbox.python(code)).stdout.strip()


@pytest.mark.case("F108")
def test_without_bubblewrap_untrusted_code_is_refused_and_the_weaker_isolation_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match='isolation = "process".*read every file'):
        open_sandboxes(SandboxProfile(), bubblewrap=tmp_path / "bwrap")


@pytest.mark.case("F108")
def test_without_namespaces_untrusted_code_is_refused_with_what_bubblewrap_said() -> None:
    before = descendants(os.getpid())
    with pytest.raises(SandboxUnavailableError, match=r'(?s)unrecognized option.*isolation = "process"'):
        open_sandboxes(SandboxProfile(), bubblewrap=Path("/bin/ls").resolve())
    assert not wait_gone(descendants(os.getpid()) - before)


def test_the_check_of_the_wall_names_what_a_plain_process_may_do(plain: Sandboxes) -> None:
    expected = {
        "isolation": "namespaces",
        "variables": [],
        "hidden": [str(Path(__file__).parent)],
        "disks": [],
        "disk_bytes": 0,
    }

    async def run() -> list[str]:
        async with plain.take() as sandbox:
            result = await sandbox.program(PROBE.read_text(), argv=[json.dumps(expected)], wall_s=20)
            return json.loads(result.stdout)["openings"]

    found = "; ".join(asyncio.run(run()))
    for words in (
        "environment variables come from outside",
        "processes are seen",
        "of the machine is seen",
        "host's name",
    ):
        assert words in found


@pytest.mark.row("S420")
def test_an_id_that_is_not_the_recorded_one_refuses_to_start(walled: Sandboxes) -> None:
    assert walled.profile_id.startswith("namespaces-")
    pool = open_sandboxes(walled.profile, expected_id=walled.profile_id, num_warm=0)
    pool.close()
    assert pool.profile_id == walled.profile_id
    other = dataclasses.replace(walled.profile, limits=dataclasses.replace(LIMITS, processes=13))
    with pytest.raises(SandboxSetupError, match=f"{walled.profile_id} was expected"):
        open_sandboxes(other, expected_id=walled.profile_id)


ISOLATIONS: tuple[Isolation, ...] = ("namespaces", "process")


@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_sets_of_texts_have_one_order_in_every_pool(isolation: Isolation) -> None:
    order = "print({str(number) for number in range(40)})"

    async def run(pool: Sandboxes) -> list[str]:
        async with pool.take() as sandbox:
            by_command = await sandbox.shell(f'exec "$(command -v python3)" -c "{order}"')
            return [(await sandbox.python(order)).stdout, (await sandbox.program(order)).stdout, by_command.stdout]

    seen: list[list[str]] = []
    for _ in range(2):
        pool = open_sandboxes(SandboxProfile(isolation=isolation, limits=LIMITS), num_warm=0)
        try:
            seen.append(asyncio.run(run(pool)))
        finally:
            pool.close()
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 1


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_closing_a_pool_leaves_no_process_no_descriptor_and_no_thread(isolation: Isolation) -> None:
    before = (descendants(os.getpid()), len(os.listdir("/proc/self/fd")), threading.active_count())
    pool = open_sandboxes(SandboxProfile(isolation=isolation, limits=LIMITS))

    async def run() -> None:
        taken = [pool.take() for _ in range(3)]
        sandboxes = [await one.__aenter__() for one in taken]
        for sandbox in sandboxes:
            await sandbox.python("import subprocess; subprocess.Popen(['sleep', '300'])")
        running = asyncio.create_task(sandboxes[0].program("while True: pass", wall_s=100))
        await asyncio.sleep(0)
        started = descendants(os.getpid())
        assert len(started) > len(before[0]) + 3
        pool.close()
        pool.close()
        assert not wait_gone(started - before[0])
        with pytest.raises(SandboxError, match="closed"):
            await running
        for one in taken:
            await one.__aexit__(None, None, None)
        with pytest.raises(SandboxError, match="the pool of sandboxes is closed"):
            await value(pool, "1")

    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) == before[1]
    assert threading.active_count() == before[2]


def test_a_cancelled_call_leaves_nothing_and_its_sandbox_is_over(walled: Sandboxes) -> None:
    async def run() -> None:
        async with walled.take() as sandbox:
            await sandbox.python("1")
            idle = descendants(os.getpid())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await sandbox.shell("sleep 300 & setsid sleep 300 & wait", wall_s=100)
            left = descendants(os.getpid())
            assert len(left) < len(idle)
            with pytest.raises(SandboxError, match="cancelled"):
                await sandbox.python("1")

    asyncio.run(run())


def test_a_cancelled_episode_leaves_nothing(walled: Sandboxes) -> None:
    async def episode(begun: asyncio.Event) -> None:
        async with walled.take() as sandbox:
            await sandbox.python("1")
            begun.set()
            await sandbox.shell(f"sleep {SLEEP_S} & setsid sleep {SLEEP_S} & wait", wall_s=100)

    async def run() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(episode(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    lines: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes())
    assert f"sleep\0{SLEEP_S}\0".encode() not in lines


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_killed_parent_leaves_nothing(isolation: Isolation) -> None:
    script = f"""
import asyncio, sys
from rollwright.sandboxes import SandboxProfile, open_sandboxes
pool = open_sandboxes(SandboxProfile(isolation={isolation!r}))
async def run():
    async with pool.take() as sandbox:
        await sandbox.python("import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True)")
        print("ready", flush=True)
        await sandbox.shell("sleep 300 & setsid sleep 300 & wait", wall_s=300)
asyncio.run(run())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"ready\n"
        started = descendants(parent.pid)
        assert len(started) > 3
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert not wait_gone(started)


def test_several_loops_in_turn_and_in_threads_use_one_pool(walled: Sandboxes) -> None:
    assert [asyncio.run(value(walled, f"{n} + 1")) for n in range(3)] == ["1", "2", "3"]
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(value(walled, "7")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["7"] * 4


def test_more_episodes_than_places_wait_for_their_turn() -> None:
    pool = open_sandboxes(SandboxProfile(limits=LIMITS), num_warm=0, max_open=2)
    assert pool.max_open == 2
    at_once = 0
    most = 0

    async def episode(n: int, both: asyncio.Event) -> str:
        nonlocal at_once, most
        async with pool.take() as sandbox:
            at_once += 1
            most = max(most, at_once)
            if at_once == 2:
                both.set()
            await both.wait()
            answer = (await sandbox.python(f"{n} * 2")).stdout.strip()
            at_once -= 1
            return answer

    async def run() -> None:
        both = asyncio.Event()
        waiting = [asyncio.create_task(episode(n, both)) for n in range(6)]
        await asyncio.sleep(0)
        waiting[3].cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [answer for n, answer in enumerate(answers) if n != 3] == ["0", "2", "4", "8", "10"]

    try:
        asyncio.run(run())
        asyncio.run(run())
    finally:
        pool.close()
    assert most == 2


def test_many_calls_and_episodes_leak_no_descriptor_and_no_thread(walled: Sandboxes) -> None:
    async def run(num_episodes: int) -> None:
        for _ in range(num_episodes):
            async with walled.take() as sandbox:
                for _ in range(10):
                    await sandbox.python("1")
                await sandbox.program("1")

    asyncio.run(run(1))
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    asyncio.run(run(4))
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_pool_whose_starter_died_says_so_and_blames_no_program() -> None:
    known = {pid for pid in descendants(os.getpid()) if is_starter(pid)}
    pool = open_sandboxes(SandboxProfile(limits=LIMITS), num_warm=0)

    async def kill_starter(sandbox: Sandbox) -> None:
        (starter,) = descendants(os.getpid()) & {pid for pid in descendants(os.getpid()) if is_starter(pid)} - known
        running = asyncio.create_task(sandbox.shell("sleep 300", wall_s=100))
        await asyncio.sleep(0.05)
        os.kill(starter, signal.SIGKILL)
        with pytest.raises(SandboxError, match="the process that starts sandboxes"):
            await running

    async def run() -> None:
        async with pool.take() as sandbox:
            await kill_starter(sandbox)

    try:
        asyncio.run(run())
    finally:
        pool.close()


def test_a_pool_whose_starter_died_gives_back_what_stood_ready() -> None:
    known = {pid for pid in descendants(os.getpid()) if is_starter(pid)}
    before = len(os.listdir("/proc/self/fd"))
    pool = open_sandboxes(SandboxProfile(limits=LIMITS), num_warm=2)
    (starter,) = {pid for pid in descendants(os.getpid()) if is_starter(pid)} - known
    os.kill(starter, signal.SIGKILL)
    os.waitid(os.P_PID, starter, os.WEXITED | os.WNOWAIT)  # A signal is sent, not obeyed, when kill returns.
    try:
        for _ in range(3):
            with pytest.raises(SandboxError, match="the process that starts sandboxes"):
                asyncio.run(value(pool, "1"))
    finally:
        pool.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_cannot_be_made_fails_the_sandbox_by_name_and_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = open_sandboxes(SandboxProfile(isolation="process", limits=LIMITS), num_warm=0, max_open=1)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not_there"))
        for _ in range(3):
            with pytest.raises(SandboxError, match="no sandbox can be started: .*not_there"):
                asyncio.run(value(pool, "1"))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert asyncio.run(value(pool, "1 + 1")) == "2"
    finally:
        pool.close()


def is_starter(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"starter.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
