"""The admission rule (M108)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.runtime.admission import AdmissionRule, EpisodeRoom
from rollwright.runtime.errors import RuntimeRunError


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 4), st.integers(0, 6))
def test_admitting_until_refused_fills_exactly_the_batches_that_may_run(group, groups, lag, version):
    rule = AdmissionRule(batch_slots=group * groups, group_size=group, max_lag=lag)
    running = 0
    while rule.admits(accepted=version * rule.batch_slots, running=running, version=version):
        running += group
    assert running == (1 + lag) * rule.batch_slots


def test_synchronous_training_starts_nothing_while_a_batch_is_trained():
    rule = AdmissionRule(batch_slots=64, group_size=8, max_lag=0)
    assert not rule.admits(accepted=64, running=0, version=0)
    assert rule.admits(accepted=64, running=0, version=1)


def test_a_batch_that_groups_cannot_fill_is_refused_with_those_that_can():
    with pytest.raises(ValueError, match="groups of 7; group sizes that divide it are 1, 2, 4, 8"):
        AdmissionRule(batch_slots=8, group_size=7, max_lag=0)


def test_the_sizes_that_fit_a_huge_batch_are_found_at_once():
    with pytest.raises(ValueError, match=r"are 1, 2, 4, 5, 8, .*, 500000000000, 1000000000000\."):
        AdmissionRule(batch_slots=10**12, group_size=7, max_lag=0)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 6), st.integers(0, 4))
def test_a_rollout_starts_where_the_floor_of_its_number_says_so(accepted, running, version, lag):
    """AReaL's form, for single rollouts: ⌊(N − 1)/B⌋ ≤ version + lag, N with the one that is asked for."""
    rule = AdmissionRule(batch_slots=8, group_size=1, max_lag=lag)
    number = accepted + running + 1
    assert rule.admits(accepted=accepted, running=running, version=version) == ((number - 1) // 8 <= version + lag)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 4), st.integers(0, 5))
def test_oversampling_starts_so_many_more_until_the_batch_is_full_and_none_behind_it(size, groups, lag, extra, version):
    batch = size * groups
    before = version * batch
    for max_steps, allowed in ((None, extra * size), (version + 1 + lag, 0)):
        rule = AdmissionRule(
            batch_slots=batch, group_size=size, max_lag=lag, extra_slots=extra * size, max_steps=max_steps
        )
        assert rule.capacity(accepted=before, running=0, version=version) == (1 + lag) * batch + allowed
        assert rule.capacity(accepted=before + batch, running=0, version=version) == lag * batch


def test_nothing_is_started_that_no_step_of_the_stage_could_train():
    rule = AdmissionRule(batch_slots=8, group_size=4, max_lag=2, max_steps=3)
    assert rule.capacity(accepted=8, running=0, version=1) == 16
    assert not rule.admits(accepted=8, running=16, version=1)
    with pytest.raises(ValueError, match="extra_slots is 3 and groups have 4 slots"):
        AdmissionRule(batch_slots=8, group_size=4, max_lag=1, extra_slots=3)


def test_what_may_run_at_once_bounds_what_age_allows():
    rule = AdmissionRule(batch_slots=8, group_size=4, max_lag=1, max_running=10)
    assert rule.capacity(accepted=0, running=0, version=0) == 10
    assert rule.admits(accepted=0, running=4, version=0)
    assert not rule.admits(accepted=0, running=8, version=0)
    assert rule.capacity(accepted=8, running=4, version=0) == 4
    with pytest.raises(ValueError, match="max_running is 3 and groups have 4 slots"):
        AdmissionRule(batch_slots=8, group_size=4, max_lag=1, max_running=3)


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"asked": 64, "engine_slots": 128}, 64),
        ({"asked": 64, "engine_slots": 16}, 16),
        ({"asked": 64, "engine_slots": 64, "contexts": 3}, 21),
        ({"asked": 128, "engine_slots": 128, "environment": 8}, 8),
    ],
)
def test_as_many_episodes_run_as_the_scarcest_of_what_they_hold_allows(given, places):
    assert EpisodeRoom(**given).places == places


def test_fewer_places_than_the_recipe_and_its_engine_say_are_explained():
    assert EpisodeRoom(asked=64, engine_slots=16).warning is None
    said = EpisodeRoom(asked=128, engine_slots=128, contexts=2, environment=8).warning
    assert said is not None
    assert said.startswith("8 episodes run at once, of the 128 that runtime.concurrency asks for")
    assert "the engine 64" in said and "the environment 8" in said and "128 slots for 2 contexts" in said


def test_an_engine_without_a_slot_for_each_context_of_an_episode_is_refused():
    with pytest.raises(RuntimeRunError, match=r"the engine allows 0 at once.*engine\.num_slots"):
        EpisodeRoom(asked=64, engine_slots=1, contexts=2)
