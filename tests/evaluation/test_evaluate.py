"""Running a protocol: every task once, retries for accidents, the same draws in every run."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from rollwright.evaluation import Harness, evaluate
from rollwright.record import ScoredTrajectory, TerminalReason, evaluation_episode_seed
from rollwright.runtime.parts import GroupCounter
from tests.cases import case
from tests.evaluation.held_out import episode, held_out, noon, protocol, row_of

FAILED = TerminalReason.INFRASTRUCTURE_FAILURE


def always_ends(attempt):
    return TerminalReason.MODEL_END


class Field:
    """Runs attempts, ends them as `reason` says after a while of their own, and pays each task its reward."""

    def __init__(self, *, reason=always_ends, rewards=(1.0,), shuffle=0):
        self.attempts = []
        self.scored = []
        self._reason = reason
        self._rewards = rewards
        self._chance = np.random.default_rng(shuffle)

    async def run_episode(self, attempt):
        self.attempts.append(attempt)
        for _ in range(int(self._chance.integers(0, 5))):
            await asyncio.sleep(0)
        return episode(attempt, self._reason(attempt))

    async def score(self, trajectories):
        self.scored += [t.trajectory_id for t in trajectories]
        return [
            ScoredTrajectory(
                trajectory=t,
                verdicts=(),
                outcome=float(self._rewards[int(t.task.task_id.split("/")[1], 16) % len(self._rewards)]),
                reward_rule="rule-1",
                reward_components=(),
                verifying_s=0.0,
            )
            for t in trajectories
        ]

    def evaluate(self, of, *, step=3, first_group=40):
        return asyncio.run(
            evaluate(
                of,
                Harness(
                    take_group=GroupCounter(first_group).take, run_episode=self.run_episode, score=self.score, now=noon
                ),
                step=step,
            )
        )


@pytest.mark.case("F117")
@pytest.mark.parametrize("shuffle", range(4))
def test_each_task_is_counted_once_whatever_finishes_first_and_whatever_fails(shuffle):
    worked = case("F117")

    def fails_at_first(attempt):
        return FAILED if attempt.group_id % 2 and attempt.attempt == 0 else TerminalReason.MODEL_END

    field = Field(reason=fails_at_first, rewards=worked.input["scores"], shuffle=shuffle)
    found = field.evaluate(protocol(len(worked.input["scores"])))
    assert found.success == pytest.approx(worked.expect["mean"])
    assert found.num_tasks == worked.expect["count"]
    counted = Counter(m.trajectory.task.task_id for m in found.trajectories if not isinstance(m.outcome, str))
    assert set(counted.values()) == {1} and len(counted) == worked.expect["count"]


def test_episodes_come_in_the_protocols_order_with_fresh_groups():
    found = Field(shuffle=1).evaluate(protocol(3, samples=2))
    assert [m.trajectory_id for m in found.trajectories] == [f"e0000{g}-0{s}-0" for g in (40, 41, 42) for s in (0, 1)]
    assert (found.num_tasks, found.num_samples, found.protocol) == (3, 2, "held-out")


def test_an_accident_is_tried_again_and_both_attempts_are_kept():
    field = Field(reason=lambda a: FAILED if a.sample == 1 and a.attempt < 2 else TerminalReason.MODEL_END)
    found = field.evaluate(protocol(1, samples=2))
    assert [(a.sample, a.attempt) for a in field.attempts if a.sample == 1] == [(1, 0), (1, 1), (1, 2)]
    assert [m.outcome for m in found.trajectories] == [1.0, "infrastructure_failure", "infrastructure_failure", 1.0]
    row = row_of(found.rows, "success")
    assert (row.value, row.num_trajectories, row.num_unscored) == (1.0, 4, 2)


def test_a_retried_attempt_says_which_one_it_repeats():
    field = Field(reason=lambda a: FAILED if a.sample == 1 and a.attempt < 2 else TerminalReason.MODEL_END)
    field.evaluate(protocol(1, samples=2))
    found = [(a.lineage, a.parent_trajectory_id) for a in field.attempts if a.sample == 1]
    assert found == [(None, None), ("retry_of", "e000040-01-0"), ("retry_of", "e000040-01-1")]
    assert [(a.lineage, a.parent_trajectory_id) for a in field.attempts if a.sample == 0] == [(None, None)]


def test_what_never_ends_well_is_given_up_after_three_attempts_and_left_out():
    field = Field(reason=lambda a: FAILED if a.group_id == 40 else TerminalReason.MODEL_END, rewards=(0.0, 1.0))
    found = field.evaluate(protocol(2))
    assert [a.attempt for a in field.attempts if a.group_id == 40] == [0, 1, 2]
    assert (found.success, row_of(found.rows, "success").num_unscored) == (1.0, 3)


def test_an_evaluation_of_accidents_alone_has_no_number():
    found = Field(reason=lambda _: FAILED).evaluate(protocol(2))
    assert (found.success, found.low, found.high) == (None, None, None)


def test_an_episode_that_the_policy_spoiled_is_scored_and_not_tried_again():
    field = Field(reason=lambda _: TerminalReason.TOKEN_LIMIT, rewards=(0.0,))
    found = field.evaluate(protocol(2))
    assert len(field.attempts) == 2 and found.success == 0.0


def test_a_scored_episode_is_scored_once_and_a_failed_one_never():
    field = Field(reason=lambda a: FAILED if a.attempt == 0 else TerminalReason.MODEL_END)
    field.evaluate(protocol(3))
    assert sorted(field.scored) == ["e000040-00-1", "e000041-00-1", "e000042-00-1"]


def test_a_score_that_does_not_come_is_an_error_and_never_an_unscored_episode():
    field = Field()

    async def score_nothing(trajectories):
        return ()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(
            evaluate(
                protocol(1),
                Harness(take_group=GroupCounter().take, run_episode=field.run_episode, score=score_nothing, now=noon),
                step=0,
            )
        )
    assert isinstance(caught.value.exceptions[0], KeyError)


def test_two_runs_draw_alike_at_every_task_and_sample():
    def seeds(field, of):
        return sorted(evaluation_episode_seed(of.sha256, a.task.task_id, a.sample) for a in field.attempts)

    one, other = Field(shuffle=1), Field(shuffle=2)
    of = protocol(3, samples=2)
    one.evaluate(of, step=0, first_group=0)
    again = protocol([held_out(n) for n in range(3)], samples=2)
    other.evaluate(again, step=900, first_group=5_000_000)
    assert len(set(seeds(one, of))) == 6
    assert seeds(one, of) == seeds(other, again)


def test_a_second_attempt_draws_as_the_first_did():
    field = Field(reason=lambda a: FAILED if a.attempt == 0 else TerminalReason.MODEL_END)
    field.evaluate(protocol(1))
    first, second = field.attempts
    assert (first.task.task_id, first.sample, first.group_id) == (second.task.task_id, second.sample, second.group_id)
