"""Ctrl-C: once asks, twice ends at once."""

import asyncio
import os
import signal
import time

import pytest

from rollwright.runtime.shutdown import Shutdown


def test_the_first_request_is_told_and_ends_nothing():
    told, ended = [], []
    shutdown = Shutdown(told.append)
    assert not shutdown.is_requested
    shutdown.request(lambda: ended.append(1))
    assert shutdown.is_requested and ended == []
    assert told == ["stopping after this step is saved; press Ctrl-C again (or send the signal again) to stop now"]


def test_the_second_request_ends_at_once_and_says_nothing_more():
    told, ended = [], []
    shutdown = Shutdown(told.append)
    for _ in range(2):
        shutdown.request(lambda: ended.append(1))
    assert ended == [1] and len(told) == 1


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_requests_until_they_are_given_back(sign):
    shutdown = Shutdown(lambda sentence: None)
    seen = []

    async def go():
        undo = shutdown.listen()
        try:
            os.kill(os.getpid(), sign)
            await asyncio.sleep(0.01)
            seen.append(shutdown.is_requested)
            os.kill(os.getpid(), sign)
            await asyncio.sleep(10)
        finally:
            undo()

    before = signal.getsignal(sign)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    assert seen == [True] and signal.getsignal(sign) == before


def test_the_third_signal_interrupts_even_what_blocks_the_loop():
    async def stuck() -> None:
        undo = Shutdown(lambda sentence: None).listen()
        try:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)  # noqa: ASYNC251 - the loop is blocked: that is the test
        finally:
            undo()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(stuck())
