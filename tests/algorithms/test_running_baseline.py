"""A baseline that follows the rewards of earlier episodes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.objective import Memory
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def with_sources(inputs, sources):
    return replace(inputs, source_index=torch.tensor(sources))


def test_the_baseline_is_the_one_before_each_episode():
    fixture = method_fixture("M02.a")
    credit = RunningBaseline()
    inputs = credit_inputs(fixture.input["R_stream"])
    assert credit(inputs).advantages.tolist() == pytest.approx(fixture.expect["A"], abs=1e-12)
    # Reading it has not moved it.
    assert credit(inputs).advantages.tolist() == pytest.approx(fixture.expect["A"], abs=1e-12)
    credit.advance(inputs)
    assert credit.state() == {"0": pytest.approx(fixture.expect["baseline_after"], abs=1e-12)}


def test_steps_go_on_where_the_last_one_ended():
    whole = RunningBaseline(decay=0.5, initial=2.0)
    together = whole(credit_inputs([1.0, 0.0, 3.0, 2.0])).advantages.tolist()
    parted = RunningBaseline(decay=0.5, initial=2.0)
    first, second = credit_inputs([1.0, 0.0]), credit_inputs([3.0, 2.0])
    found = parted(first).advantages.tolist()
    parted.advance(first)
    resumed = RunningBaseline(decay=0.5, initial=2.0)
    resumed.restore(parted.state())
    assert found + resumed(second).advantages.tolist() == together
    assert isinstance(resumed, Memory)


def test_keys_have_means_of_their_own_and_a_single_attempt_is_enough():
    credit = RunningBaseline(decay=0.5)
    inputs = with_sources(credit_inputs([1.0, 1.0, 1.0, 0.0]), [4, 9, 4, 9])
    assert credit(inputs).advantages.tolist() == [1.0, 1.0, 0.5, -0.5]
    credit.advance(inputs)
    assert credit.state() == {"4": 0.75, "9": 0.25}
    later = with_sources(credit_inputs([1.0, 1.0]), [7, 9])
    assert credit(later).advantages.tolist() == [1.0, 0.75]
    credit.advance(later)
    assert set(credit.state()) == {"4", "7", "9"}


def test_a_key_may_be_a_source_and_a_role():
    credit = RunningBaseline(decay=0.5, by=("source", "role"))
    inputs = replace(credit_inputs([1.0, 1.0, 1.0]), keys={"role": torch.tensor([0, 1, 0])})
    assert credit(inputs).advantages.tolist() == [1.0, 1.0, 0.5]
    credit.advance(inputs)
    assert credit.state() == {"0/0": 0.75, "0/1": 0.5}
    with pytest.raises(ObjectiveError, match="`role` keys"):
        credit(credit_inputs([1.0]))


def test_an_episode_counts_once_and_unscored_rows_do_not_count():
    credit = RunningBaseline(decay=0.5)
    inputs = credit_inputs([1.0, None, 1.0, 0.0, None], lengths=[2, 1, 1, 0, 1], episodes=[0, 1, 0, 2, 3])
    found = credit(inputs)
    assert found.advantages.tolist() == [1.0, 1.0, 0.0, 1.0, 0.0]
    assert found.untrained == {1: UNSCORED, 4: UNSCORED}
    credit.advance(inputs)
    assert credit.state() == {"0": 0.25}


def test_an_empty_step_changes_nothing():
    credit = RunningBaseline()
    for rewards in ([], [None]):
        credit.advance(credit_inputs(rewards))
        assert credit(credit_inputs(rewards)).advantages.tolist() == [0.0] * len(rewards)
    assert credit.state() == {}


@given(
    drawn=st.lists(st.tuples(st.floats(-5, 5) | st.none(), st.integers(0, 3)), max_size=40),
    decay=st.sampled_from([0.0, 0.3, 0.95]),
)
def test_it_is_the_recurrence_one_episode_after_the_other(drawn, decay):
    rewards, sources = [reward for reward, _ in drawn], [source for _, source in drawn]
    credit = RunningBaseline(decay=decay, initial=0.5)
    means = dict.fromkeys(range(4), 0.5)
    due = []
    for reward, source in drawn:
        due.append(0.0 if reward is None else reward - means[source])
        if reward is not None:
            means[source] = decay * means[source] + (1 - decay) * reward
    inputs = credit_inputs(rewards)
    inputs = replace(inputs, source_index=torch.tensor(sources, dtype=torch.int64))
    assert credit(inputs).advantages.tolist() == pytest.approx(due, abs=1e-9)
    credit.advance(inputs)
    assert all(credit.state()[key] == pytest.approx(means[int(key)], abs=1e-9) for key in credit.state())


def test_bad_settings_and_states_are_refused():
    with pytest.raises(ObjectiveError, match="decay 1.0"):
        RunningBaseline(decay=1.0)
    with pytest.raises(ObjectiveError, match="keys"):
        RunningBaseline(by=())
    with pytest.raises(ObjectiveError, match="not finite"):
        RunningBaseline().restore({"0": float("nan")})
