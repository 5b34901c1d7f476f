"""Commands that end with the ladder, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rollwright.recipes.ladder.commands import Commands, open_commands
from rollwright.recipes.ladder.errors import LadderError
from rollwright.runtime.errors import RunStoppedError

CHILD = "rollwright.recipes.ladder.child"
STARTER = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "{CHILD}", str(os.getpid()), *sys.argv[1:]], start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends a process with its parent")
def test_a_run_is_gone_when_the_ladder_that_asked_for_it_is_killed(tmp_path: Path):
    words = ("train", "arithmetic-tool", "--run-dir", str(tmp_path / "run"))
    ladder = subprocess.Popen(
        [sys.executable, "-c", STARTER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert ladder.stdout is not None and ladder.stdin is not None
    child = int(ladder.stdout.readline())
    try:
        # It has the program behind it, and so what ties it to its ladder.
        wait_until(lambda: "pydantic_core" in Path(f"/proc/{child}/maps").read_text(encoding="utf-8"))
        ladder.kill()
        ladder.communicate(timeout=30)
        wait_until(lambda: not is_running(child))
    finally:
        if is_running(child):
            os.kill(child, signal.SIGKILL)


def test_a_child_whose_parent_is_another_does_nothing():
    ended = subprocess.run(
        [sys.executable, "-m", CHILD, "1", "recipe", "list"], capture_output=True, text=True, timeout=120, check=False
    )
    if os.getpid() == 1:
        pytest.skip("this process is the first of all")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "process 1, which asked for this, is no more" in ended.stderr


def test_what_a_command_prints_stands_in_its_log_and_its_failure_is_told(tmp_path: Path):
    log = tmp_path / "runs" / "one.log"
    with open_commands() as commands:
        commands.run("list", ("recipe", "list"), log)
        assert "arithmetic-tool" in log.read_text(encoding="utf-8")
        with pytest.raises(
            LadderError, match=r"broken: `rollwright train` ended with exit code 2; .*no recipe 'nothing'"
        ):
            commands.run("broken", ("train", "nothing"), log)
        assert not commands.running


def test_nothing_is_begun_once_the_ladder_was_stopped(tmp_path: Path):
    commands = Commands()
    commands.stop(signal.SIGTERM, None)
    with pytest.raises(RunStoppedError, match="one was not begun"):
        commands.run("one", ("recipe", "list"), tmp_path / "one.log")


def test_a_failure_is_raised_when_the_jobs_beside_it_have_ended():
    ended: list[str] = []
    both_run, has_failed = threading.Barrier(2), threading.Event()

    def fails() -> None:
        both_run.wait(30)
        has_failed.set()
        raise LadderError("the first broke")

    def goes_on() -> None:
        both_run.wait(30)
        assert has_failed.wait(30)
        ended.append("second")

    with pytest.raises(LadderError, match="the first broke"):
        Commands().all_of([fails, goes_on], at_once=2)
    assert ended == ["second"]


def test_the_handlers_of_signals_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with open_commands() as commands:
        assert signal.getsignal(signal.SIGTERM) == commands.stop
    assert signal.getsignal(signal.SIGTERM) == before
