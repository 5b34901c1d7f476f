"""Filling a batch with groups that have contrast (M94)."""

import math

import numpy as np
import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.sampling.attempt_chances import chance_of_contrast
from rollwright.algorithms.sampling.dynamic_sampling import DynamicBatch, ProposedGroup, groups_to_sample
from tests.cases import case

NAN = float("nan")


def groups(*rewards, source="math", start=0):
    return [ProposedGroup(group_id=start + i, source=source, rewards=tuple(r)) for i, r in enumerate(rewards)]


def test_groups_of_one_outcome_are_dropped_and_their_outcomes_are_reported_before_that():
    batch = DynamicBatch(target=4, max_rounds=2)
    batch.add([*groups((1, 1, 1), (0, 0, 0), (1, 0, 1)), *groups((0.5, 0.5), (0, 1), source="code", start=3)])
    filled = batch.close(at_cap="smaller")
    assert [group.group_id for group in filled.groups] == [2, 4]
    seen = {(metric.name, metric.labels.get("source")): metric.value for metric in filled.seen}
    assert seen["reward/zero_var_frac", None] == 3 / 5
    assert seen["reward/all_right", None] == 1 / 5
    assert seen["reward/all_wrong", None] == 2 / 5
    assert seen["reward/total", None] == pytest.approx(7 / 13)
    assert seen["data/proposed", "math"] == 3
    assert seen["data/filtered", "math"] == 2
    assert seen["data/accepted", "code"] == 1


@pytest.mark.parametrize(
    ("rewards", "has_contrast"),
    [
        ((0.1 + 0.2, 0.3), False),
        ((0.0, 1e-9), True),
        ((1e9, 1e9 + 1e-4), False),
        ((1.0,), False),
        ((1.0, NAN), False),
        ((1.0, NAN, 0.0), True),
        ((NAN, NAN), False),
        ((), False),
    ],
)
def test_contrast_is_a_range_of_two_scored_attempts(rewards, has_contrast):
    (group,) = groups(rewards)
    assert group.has_contrast is has_contrast


def test_rounds_top_up_to_the_target_and_the_rest_waits():
    given = case("F42")
    rounds = [groups(*one, start=10 * number) for number, one in enumerate(given.input["rounds"])]
    batch = DynamicBatch(target=given.input["target_groups"], max_rounds=given.input["max_rounds"])
    while batch.missing:
        batch.add(rounds.pop(0))
    filled = batch.close(at_cap="refuse")
    assert len(filled.groups) == given.expect["step1_groups"]
    assert len(filled.carried) == given.expect["carried_over_to_step2"]
    assert filled.rounds == given.expect["rounds_used_by_step1"]
    following = DynamicBatch(target=2, max_rounds=3, carried=filled.carried)
    assert following.missing == 1
    following.add(rounds.pop(0))
    assert [group.group_id for group in following.close(at_cap="refuse").groups] == [12, 20]


def test_dead_rounds_come_to_an_end_that_names_what_was_seen():
    batch = DynamicBatch(target=2, max_rounds=3)
    for number in range(3):
        assert batch.missing == 2
        batch.add(groups((1, 1), (0, 0), (1, 1), start=3 * number))
    assert batch.missing == 0
    with pytest.raises(ObjectiveError, match=r"kept 0 of 2 groups, seen 9 in 3 rounds; rewards are \[0, 1\]"):
        batch.close(at_cap="refuse")
    assert batch.close(at_cap="smaller").groups == ()
    assert len(batch.close(at_cap="best_available").groups) == 2
    with pytest.raises(ObjectiveError, match="close the batch"):
        batch.add([])


def test_a_batch_of_nothing_has_undefined_shares():
    filled = DynamicBatch(target=1, max_rounds=1).close(at_cap="smaller")
    assert {metric.value for metric in filled.seen} == {None}
    with pytest.raises(ObjectiveError, match="both are at least 1"):
        DynamicBatch(target=0, max_rounds=1)


@pytest.mark.row("S210")
def test_a_sampling_rate_that_follows_the_share_fills_the_same_batches_with_fewer_rollouts():
    """Twenty batches of 64 groups, all with contrast; what a step does not need is thrown away."""
    size, target, most = 8, 64, 192

    def run(*, adaptive):
        generator, share, rollouts, trained = np.random.default_rng(3), 1.0, 0, 0
        for step in range(20):
            found, sampled, missing = 0, 0, target
            while missing:
                count = groups_to_sample(missing, informative_share=share, most=most) if adaptive else most
                chance = float(chance_of_contrast(0.02 + 0.02 * step, size))
                found += int(generator.binomial(count, chance))
                sampled += count
                missing = max(0, target - found)
                share = found / sampled
            rollouts += sampled * size
            trained += min(found, target)
        return rollouts, trained / (20 * target)

    (fewer, adaptive_share), (more, fixed_share) = run(adaptive=True), run(adaptive=False)
    assert adaptive_share == fixed_share == 1.0
    assert fewer < 0.8 * more


def test_the_sampling_rate_is_bounded():
    assert groups_to_sample(10, informative_share=0.3, most=100) == math.ceil(10 / 0.3)
    assert groups_to_sample(10, informative_share=0.0, most=100) == 100
    assert groups_to_sample(0, informative_share=0.0, most=100) == 0
    assert groups_to_sample(90, informative_share=0.5, most=100) == 100
    with pytest.raises(ObjectiveError, match=r"a share is in \[0, 1\]"):
        groups_to_sample(1, informative_share=1.5, most=10)
