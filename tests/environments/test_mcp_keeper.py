"""Servers that a command starts end with whoever started them, and so does all that they started themselves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollwright.environments import EnvironmentSetupError, McpEnvironment, McpServer

SERVER = str(Path(__file__).with_name("odd_mcp_server.py"))
KEEPER = Path(__file__).parents[2] / "src" / "rollwright" / "environments" / "mcp_keeper.py"
LIMIT_S = 30.0
PARENT = """
import sys
from rollwright.environments.mcp_tools import McpConnections, McpServer

async def hold(connections):
    async with connections.opened("episode"):
        print("open", flush=True)
        await asyncio.sleep(600)

import asyncio
asyncio.run(hold(McpConnections(McpServer(command=(sys.executable, *sys.argv[1:])))))
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="servers are kept on Linux alone")


def runs(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end_of(pids):
    deadline = time.monotonic() + LIMIT_S
    while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


def test_a_server_that_stays_at_the_end_of_its_input_ends_with_a_process_that_is_killed(tmp_path):
    told = tmp_path / "pids"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, SERVER, "slow_pattern", str(told)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent:
        assert parent.stdout.readline() == "open\n"
        pids = [int(pid) for pid in told.read_text().split()]
        assert all(map(runs, pids))
        parent.kill()
    assert await_end_of(pids) == []


def test_a_closed_environment_leaves_nothing_that_its_server_started(tmp_path):
    told = tmp_path / "pids"
    McpEnvironment(McpServer(command=(sys.executable, SERVER, "slow_pattern", str(told)))).close()
    assert await_end_of([int(pid) for pid in told.read_text().split()]) == []


def kept(*command, **settings):
    return subprocess.run(
        [sys.executable, "-I", "-S", str(KEEPER), str(os.getpid()), *command],
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
        **settings,
    )


def masks(status):
    """Signals that are blocked or ignored."""
    return [line for line in status.decode().splitlines() if line.startswith(("SigBlk", "SigIgn"))]


def test_input_output_variables_signals_and_exit_code_are_the_commands_own():
    variables = {"PATH": os.environ["PATH"], "ODD": "1=2"}
    assert kept("cat", input=b"a\0b", env=variables).stdout == b"a\0b"
    assert kept("env", env=variables).stdout.decode().split() == [f"PATH={variables['PATH']}", "ODD=1=2"]
    bare = subprocess.run(["cat", "/proc/self/status"], capture_output=True, timeout=LIMIT_S, check=True)
    assert masks(kept("cat", "/proc/self/status").stdout) == masks(bare.stdout)
    assert kept("sh", "-c", "exit 5").returncode == 5
    assert kept("sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


def test_the_end_of_a_commands_output_is_seen_when_it_closes_it():
    command = [sys.executable, "-I", "-S", str(KEEPER), str(os.getpid()), "sh", "-c", "exec >&-; read word"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.read() == b""
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(LIMIT_S) == 1


def test_a_command_that_cannot_be_run_is_refused_with_what_is_wrong_with_it(tmp_path):
    with pytest.raises(EnvironmentSetupError, match="no program 'no_such_program'"):
        McpEnvironment(McpServer(command=("no_such_program",)))
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    ran = kept(str(broken))
    assert ran.returncode == 127
    assert b"No such file" in ran.stderr


def test_a_keeper_whose_parent_is_another_one_starts_nothing(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(KEEPER), "1", "touch", str(tmp_path / "made")], timeout=LIMIT_S, check=False
    )
    assert ran.returncode != 0
    assert not (tmp_path / "made").exists()
