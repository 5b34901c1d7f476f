"""The protocol's digest: what changes it, what does not, and the seeds that come of it."""

import pytest

from rollwright.record import Sampling, evaluation_episode_seed, evaluation_reset_seed
from tests.evaluation.held_out import held_out, protocol


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": 3},
        {"samples": 2},
        {"sampling": Sampling(temperature=0.5)},
        {"sampling": Sampling(top_p=0.9)},
        {"sampling": Sampling(top_k=5)},
        {"sampling": Sampling(min_p=0.1)},
        {"sampling": Sampling(processors=("no_repeat",))},
        {"max_turns": 3},
        {"max_turn_tokens": 9},
        {"max_episode_tokens": 33},
        {"environment_revision": "environment-2"},
        {"reward_rule": "rule-2"},
        {"rendering_revision": "rendering-2"},
        {"success_threshold": 0.5},
        {"seed": 1},
    ],
    ids=str,
)
def test_whatever_changes_an_episode_or_its_success_changes_the_digest(changes):
    assert protocol(**changes).sha256 != protocol().sha256


@pytest.mark.parametrize("changes", [{"name": "another name"}, {"level": 0.9}], ids=str)
def test_a_name_and_the_width_of_an_interval_leave_the_digest(changes):
    assert protocol(**changes).sha256 == protocol().sha256


def test_equal_protocols_have_equal_digests_and_the_same_tasks_in_another_order_are_another_protocol():
    first, second = held_out(0), held_out(1)
    assert protocol((first, second)).sha256 == protocol((held_out(0), held_out(1))).sha256
    assert protocol((first, second)).sha256 != protocol((second, first)).sha256


def test_the_seeds_of_an_evaluation_know_the_protocol_task_and_sample_alone():
    sha256, again = protocol().sha256, protocol().sha256
    seeds = [evaluation_episode_seed(sha256, held_out(t).task_id, n) for t in (0, 1) for n in (0, 1)]
    assert len(set(seeds)) == 4
    assert seeds == [evaluation_episode_seed(again, held_out(t).task_id, n) for t in (0, 1) for n in (0, 1)]
    other = protocol(seed=1).sha256
    assert evaluation_reset_seed(sha256, "made/0") != evaluation_reset_seed(other, "made/0")
