"""Someone else's scorer in a process of its own: whatever it does, the call ends with a word."""

import time
from collections.abc import Iterator, Sequence

import pytest

from rollwright.verifiers import ScorerLimits, ScorerPool, VerifierSetupError

LIMITS = ScorerLimits(cpu_s=0.3, wall_s=60.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[ScorerPool]:
    with ScorerPool("tests.verifiers.scorers:open_scorer", {"base": 10}, LIMITS) as opened:
        yield opened


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (5, "given"),
        ("hang", "cpu_limit"),
        ("grow", "out_of_memory"),
        ("die", "crashed"),
        ("nan", "failed"),
        ("what?", "failed"),
    ],
)
def test_a_call_ends_with_a_word_and_the_next_one_is_answered(pool, request_, status):
    started = time.monotonic()
    assert pool.call(request_).status == status
    assert time.monotonic() - started < 60
    assert pool.call(7).value == 17


def test_a_call_that_waits_ends_by_the_clock():
    with ScorerPool("tests.verifiers.scorers:open_scorer", {"base": 10}, ScorerLimits(wall_s=0.5)) as short:
        assert short.call("sleep").status == "wall_limit"


def test_what_a_scorer_prints_is_no_reply(pool):
    assert pool.call("print").value == 0


def test_a_scorer_that_does_not_open_says_why():
    with ScorerPool("tests.verifiers.scorers:open_nothing", {}) as broken:
        reply = broken.call(1)
    assert reply.status == "not_started"
    assert reply.value == "RuntimeError: the package is not well"


def test_a_closed_pool_takes_no_call():
    closed = ScorerPool("tests.verifiers.scorers:open_scorer", {"base": 0})
    closed.close()
    with pytest.raises(VerifierSetupError, match="closed"):
        closed.submit(1)
    with pytest.raises(VerifierSetupError, match="times are above 0"):
        ScorerLimits(cpu_s=0)


def scored(pool: ScorerPool, requests: Sequence[int]) -> dict[int, object]:
    """What all of them came to, asked for at once in this order."""
    futures = {request: pool.submit(request) for request in requests}
    return {request: future.result(60).value for request, future in futures.items()}


@pytest.mark.row("S278")
def test_processes_come_with_the_queue_and_go_without_one_and_results_do_not_depend_on_the_order():
    limits = ScorerLimits(cpu_s=5.0, wall_s=60.0, num_workers=3, idle_s=0.5)
    with ScorerPool("tests.verifiers.scorers:open_scorer", {"base": 10}, limits) as pool:
        assert pool.num_processes == 0
        assert pool.submit(1).result(60).value == 11
        assert pool.num_processes == 1
        requests = list(range(300))
        rising = scored(pool, requests)
        # More than one where calls wait, and no more than are allowed.
        assert 1 < pool.num_processes <= limits.num_workers
        until = time.monotonic() + 60
        while pool.num_processes and time.monotonic() < until:
            time.sleep(0.05)
        assert pool.num_processes == 0
        falling = scored(pool, requests[::-1])
        assert rising == falling == {request: 10 + request for request in requests}
    assert pool.num_processes == 0
