"""How far an evaluation has come is told from none to all, each sample once."""

import asyncio

from rollwright.evaluation import Harness, counted, evaluate
from rollwright.record import TerminalReason
from rollwright.runtime.parts import GroupCounter
from tests.evaluation.held_out import noon, protocol
from tests.evaluation.test_evaluate import Field


def test_each_sample_is_told_once_whatever_accidents_it_had():
    told: list[tuple[int, int]] = []

    def first_tries_fail(attempt):
        return TerminalReason.INFRASTRUCTURE_FAILURE if attempt.attempt == 0 else TerminalReason.MODEL_END

    of = protocol(3, samples=2)
    field = Field(reason=first_tries_fail, shuffle=1)
    asyncio.run(
        evaluate(
            of,
            Harness(
                take_group=GroupCounter(0).take,
                run_episode=counted(field.run_episode, of, lambda done, total: told.append((done, total))),
                score=field.score,
                now=noon,
            ),
            step=0,
        )
    )
    assert len(field.attempts) == 12
    assert told == [(done, 6) for done in range(7)]
