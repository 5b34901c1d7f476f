"""Someone else's scorer in a process of its own: whatever it does, the call ends with a word."""

import time
from collections.abc import Iterator

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
