"""The protocol's digest: what changes it, what does not, and the seeds that come of it."""

import pytest

from rollwright.evaluation import protocol_differences
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
        {"split": "train"},
        {"attempts": (1,)},
        {"cover_rates": (0.25,)},
        {"gold": "revision-1"},
    ],
    ids=str,
)
def test_whatever_changes_an_episode_or_its_success_changes_the_digest(changes):
    assert protocol(**changes).sha256 != protocol().sha256


def test_a_protocol_without_what_was_added_later_keeps_the_digest_that_it_had():
    # As computed before protocols had a split, k of their own, rates or a gold verifier.
    assert protocol().sha256 == "a6cf2bb418a5c85608718fcb7b5308d56833c9e902c8dffd14c2f8dbbf2aa84d"


def test_two_protocols_differ_in_exactly_what_their_facts_say():
    one, other = protocol(), protocol(3, max_turns=9, gold="revision-1")
    found = {d.name: d.values for d in protocol_differences((one.facts, other.facts))}
    assert found.keys() == {"gold", "max_turns", "num_tasks", "tasks"}
    assert (found["gold"], found["max_turns"], found["num_tasks"]) == (
        ("absent", '"revision-1"'),
        ("2", "9"),
        ("2", "3"),
    )
    assert protocol_differences((one.facts, protocol().facts)) == ()


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
