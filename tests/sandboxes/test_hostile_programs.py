"""Programs that mean harm: each ends in a typed result within its limit, and leaves no process."""

import asyncio
import os
import resource
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollwright.sandboxes import Sandbox, Sandboxes, SandboxResult

WALL_S = 0.5
SLACK_S = 25.0
"""Half a second is promised on a machine that is free; tests share theirs."""
SLEEP_S = 1000 + os.getpid()
"""By which this process knows its own sleepers."""
TREE = "sh -c '(while :; do echo x >> f; sleep 0.01; done) & sleep 300 & setsid sleep 300 & wait'"
LEFT_OVER = "ls -d /proc/[0-9]* | wc -l; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '"


@dataclass(frozen=True)
class Hostile:
    """A program, how it is run, and how it may end."""

    name: str
    kind: str
    code: str
    ends: tuple[str, ...]
    says: str = ""


PROGRAMS = tuple(
    Hostile(**(row | {"ends": tuple(row["ends"])}))
    for row in tomllib.loads((Path(__file__).parent / "hostile.toml").read_text())["programs"]
)


async def attempt(pool: Sandboxes, hostile: Hostile) -> tuple[SandboxResult, float, SandboxResult]:
    async with pool.take() as sandbox:
        await sandbox.python("kept = 1")
        wall_s = WALL_S if "timeout" in hostile.ends else None
        began = time.monotonic()
        match hostile.kind:
            case "program":
                result = await sandbox.program(hostile.code, wall_s=wall_s)
            case "shell":
                result = await sandbox.shell(hostile.code, wall_s=wall_s)
            case _:
                result = await sandbox.python(hostile.code, wall_s=wall_s)
        took_s = time.monotonic() - began
        await sandbox.shell("rm -rf /dev/shm/x; find . -delete")
        return result, took_s, await sandbox.shell(LEFT_OVER)


@pytest.mark.parametrize("hostile", PROGRAMS, ids=lambda hostile: hostile.name)
def test_a_hostile_program_ends_within_its_limit_and_leaves_nothing(walled: Sandboxes, hostile: Hostile) -> None:
    result, took_s, after = asyncio.run(attempt(walled, hostile))
    limits = walled.profile.limits
    assert result.status in hostile.ends, result
    assert hostile.says in result.stderr
    assert took_s < WALL_S + SLACK_S
    for text in (result.stdout, result.stderr):
        assert len(text.encode()) < limits.output_bytes + 400
    processes, zombies = map(int, after.stdout.split())
    # The server, a session, and the command that counts: its shell, `ls`, `wc`.
    assert processes <= 5 and zombies == 0


@pytest.mark.case("F105")
def test_a_timeout_ends_and_reaps_the_whole_tree(walled: Sandboxes) -> None:
    async def run() -> None:
        async with walled.take() as sandbox:
            for _ in range(5):
                result = await sandbox.shell(TREE, wall_s=0.2)
                size = len(await sandbox.read("f") or b"")
                after = await sandbox.shell(LEFT_OVER)
                assert result.status == "timeout"
                assert int(after.stdout.split()[0]) <= 5 and after.stdout.split()[1] == "0"
                assert len(await sandbox.read("f") or b"") == size

    asyncio.run(run())


@pytest.mark.case("F106")
def test_output_is_cut_while_it_streams_and_the_program_is_not_blocked(walled: Sandboxes) -> None:
    code = "import os\nb = b'x' * 2**20\nfor n in range(200):\n  os.write(1, b); os.write(2, b)\nos.write(1, b'end')"

    async def run() -> SandboxResult:
        async with walled.take() as sandbox:
            return await sandbox.program(code, wall_s=30)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = asyncio.run(run())
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.status == "ok"
    assert (result.stdout_bytes, result.stderr_bytes) == (200 * 2**20 + 3, 200 * 2**20)
    assert grown_kib < 20 * 1024
    for text in (result.stdout, result.stderr):
        assert len(text.encode()) <= 16_584
        assert "original size" in text and "cut" in text
    assert result.stdout.startswith("xxx") and result.stdout.endswith("xend")


@pytest.mark.case("F108")
@pytest.mark.row("S420")
def test_network_secrets_other_episodes_and_the_system_are_out_of_reach(
    walled: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLWRIGHT_TEST_SECRET", "of the parent")
    (tmp_path / "secret").write_text("of the machine")
    attempts = (
        "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
        "import socket; socket.create_connection(('1.1.1.1', 53), 1)",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('http://example.org', timeout=1)",
        "import os; os.environ['ROLLWRIGHT_TEST_SECRET']",
        "open('/proc/1/environ').read()",
        f"open('/proc/{os.getpid()}/environ').read()",
        f"open('{tmp_path}/secret').read()",
        f"open('{Path(__file__)}').read()",
        f"open('/proc/{os.getpid()}/root/etc/passwd').read()",
        "open('/usr/x', 'w')",
        "open('/etc/x', 'w')",
        "open('/x', 'w')",
        "open('/dev/x', 'w')",
        "open('/proc/sys/kernel/core_pattern', 'w')",
        "import os; os.listdir('/home')",
        "open('/work/other.txt').read()",
    )

    async def run() -> None:
        async with walled.take() as other, walled.take() as sandbox:
            await other.write("other.txt", b"of another episode")
            for code in attempts:
                result = await sandbox.program(code)
                assert (result.status, result.stdout) == ("failed", ""), code
                assert "rror: " in result.stderr
            seen = await sandbox.shell("env; cat /proc/[0-9]*/environ; find / -name other.txt -print -quit")
            assert "SECRET" not in seen.stdout and "/other.txt" not in seen.stdout

    asyncio.run(run())


def test_a_plain_process_cannot_signal_everyone_at_once(plain: Sandboxes) -> None:
    async def run() -> SandboxResult:
        async with plain.take() as sandbox:
            return await sandbox.program("import os; os.kill(-1, 0)")  # Signal 0 asks for leave and ends nobody.

    assert "PermissionError" in asyncio.run(run()).stderr


async def settle(sandbox: Sandbox) -> None:
    await sandbox.python("1")


def test_plain_processes_are_ended_too(plain: Sandboxes) -> None:
    async def run() -> None:
        async with plain.take() as sandbox:
            await settle(sandbox)
            result = await sandbox.shell(f"sleep {SLEEP_S} & setsid sleep {SLEEP_S} & wait", wall_s=0.3)
            assert result.status == "timeout"
            assert not sleepers()
            result = await sandbox.program("import os, signal\nos.kill(os.getppid(), 9)\nwhile True: pass")
            assert result.status == "failed" and "names and files are lost" in result.stderr
            assert (await sandbox.python("2")).stdout == "2\n"
            await sandbox.python(f"import subprocess; subprocess.Popen(['sleep', '{SLEEP_S}'], start_new_session=True)")
        assert not sleepers()

    asyncio.run(run())


def sleepers() -> list[str]:
    """Processes of this machine that a test's program started."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if line == f"sleep\0{SLEEP_S}\0".encode():
            found.append(str(path))
    return found
