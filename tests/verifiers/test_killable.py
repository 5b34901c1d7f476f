"""Processes that answer lines: whatever they or their owner do, a call ends in time, and no reply is another's."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from rollwright.verifiers.killable import LineProcess, ProcessThreads

PROGRAM = """
import json, sys
print('{"status": "ready"}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"said": asked["word"] * asked.get("times", 1)}), flush=True)
"""
SLACK_S = 12.0


def started() -> LineProcess:
    return LineProcess(
        [sys.executable, "-I", "-c", PROGRAM], environment={}, first=b"", start_s=SLACK_S, max_bytes=100_000
    )


@pytest.fixture
def threads() -> Iterator[ProcessThreads]:
    pool = ProcessThreads(started, num_threads=1, name="lines", closed="closed")
    yield pool
    pool.close()


def said(threads: ProcessThreads, line: bytes, wall_s: float = SLACK_S) -> object:
    process = threads.mine()
    assert process is not None
    reply = process.exchange(line, wall_s)
    if reply is None:
        threads.drop(process)
    return reply and reply["said"]


def test_a_line_longer_than_a_pipe_is_answered(threads: ProcessThreads) -> None:
    word = b"x" * 10_000_000
    assert threads.submit(said, threads, b'{"word": "a", "more": "%s"}\n' % word).result(SLACK_S) == "a"


def test_a_process_that_stopped_reading_is_given_up_in_time(threads: ProcessThreads) -> None:
    threads.submit(said, threads, b'{"word": "a"}\n').result(SLACK_S)
    (process,) = threads._processes
    os.kill(process._process.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert threads.submit(said, threads, b'{"word": "%s"}\n' % (b"x" * 1_000_000), 0.3).result(SLACK_S) is None
    assert time.monotonic() - began < SLACK_S / 2
    assert threads.submit(said, threads, b'{"word": "b"}\n').result(SLACK_S) == "b"


def test_what_is_left_of_a_reply_that_is_too_long_is_never_taken_for_the_next(threads: ProcessThreads) -> None:
    assert threads.submit(said, threads, b'{"word": "a", "times": 1000000}\n').result(SLACK_S) is None
    assert threads.submit(said, threads, b'{"word": "b"}\n').result(SLACK_S) == "b"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_processes_of_its_own_and_leaves_those_of_its_parent_alone(
    threads: ProcessThreads,
) -> None:
    assert threads.submit(said, threads, b'{"word": "a"}\n').result(SLACK_S) == "a"
    (before,) = threads._processes
    child = os.fork()
    if child == 0:
        signal.alarm(int(SLACK_S))
        heard = threads.submit(said, threads, b'{"word": "b"}\n').result(SLACK_S)
        threads.close()
        os._exit(0 if heard == "b" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert threads.submit(said, threads, b'{"word": "c"}\n').result(SLACK_S) == "c"
    assert threads._processes == {before}
