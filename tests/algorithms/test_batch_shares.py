"""Replayed and carried rollouts of a batch (M104, M113)."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, TokenStreams
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.sampling.batch_shares import replay_share, streaming_share
from rollwright.algorithms.sampling.replay_pool import ReplayPool, StoredRollout


@given(st.integers(0, 200), st.floats(0, 1), st.integers(0, 50))
def test_a_batch_is_whole_and_replays_no_more_than_asked_for_or_there(batch, fraction, pool):
    share = replay_share(batch, pool=pool, fraction=fraction)
    assert share.fresh + share.other == batch
    assert 0 <= share.other <= min(pool, fraction * batch + 1e-9)
    carried = streaming_share(batch, on_policy=fraction)
    assert carried.fresh + carried.other == batch
    assert carried.fresh >= fraction * batch - 1e-6


def test_shares_round_what_is_whole_to_itself():
    assert replay_share(100, pool=100, fraction=0.29).other == 29
    assert streaming_share(100, on_policy=0.71).fresh == 71
    assert replay_share(10, pool=0, fraction=0.5).fresh == 10
    with pytest.raises(ObjectiveError, match="fraction has no default: RLEP"):
        replay_share(8, pool=2)
    with pytest.raises(ObjectiveError, match="between 0 and 1"):
        streaming_share(8, on_policy=1.5)


def stored(name, version, reward=1.0):
    return StoredRollout(trajectory_id=name, oldest_version=version, reward=reward)


@pytest.mark.row("S204")
def test_successes_are_replayed_up_to_an_age_and_their_ratio_up_to_a_cap():
    pool = ReplayPool(max_age=4, max_size=3)
    assert [pool.offer(one) for one in (stored("a", 1), stored("b", 5), stored("c", 6, 0.0), stored("d", 8))] == [
        True,
        True,
        False,
        True,
    ]
    drawn = pool.draw(5, learner_version=9, generator=np.random.default_rng(0))
    assert [one.trajectory_id for one in drawn] == ["b", "d"]
    share = replay_share(8, pool=len(pool.young(9)), fraction=0.125)
    assert (share.fresh, share.other) == (7, 1)
    assert len(pool.draw(share.other, learner_version=9, generator=np.random.default_rng(0))) == 1
    behavior, proximal = torch.tensor([-3.0, -1.0]), torch.tensor([-1.0, -1.5])
    streams = TokenStreams(
        row_offsets=torch.tensor([0, 2]),
        action_mask=torch.ones(2, dtype=torch.bool),
        advantages=torch.ones(2),
        token_weights=torch.ones(2),
        policy_versions=torch.tensor([drawn[0].oldest_version] * 2, dtype=torch.int32),
        logprobs={"behavior": behavior, "proximal": proximal},
        values={},
    )
    weights = TruncatedRatio(cap=2.0)(streams).tolist()
    assert weights == pytest.approx([2.0, float(np.exp(-0.5))])


def test_a_pool_keeps_the_newest_once_each_and_goes_on_from_its_state():
    pool = ReplayPool(max_age=9, max_size=2)
    assert pool.offer(stored("b", 2))
    assert not pool.offer(stored("b", 2))
    assert not pool.offer(stored("nan", 2, float("nan")))
    assert pool.offer(stored("c", 3))
    assert not pool.offer(stored("a", 1))
    resumed = ReplayPool(max_age=9, max_size=2)
    resumed.restore(pool.state())
    assert resumed.young(5) == pool.young(5)
    assert pool.young(40) == () == pool.draw(3, learner_version=40, generator=np.random.default_rng(0))
    with pytest.raises(ObjectiveError, match="at least 0 and at least 1"):
        ReplayPool(max_age=-1, max_size=2)
