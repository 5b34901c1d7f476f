"""A policy that loops in its episodes while rewards stop differing is told of, once."""

import pytest

from rollwright.runtime.echo_watch import EchoWatch
from tests.batches.episodes import Forest, episode


def batch(texts, rewards):
    """A group whose members each say these turns; one character is one token."""
    members = []
    for slot, reward in enumerate(rewards):
        forest = Forest()
        forest.add("task", 1)
        for turn, text in enumerate(texts):
            forest.add("policy", [ord(c) for c in text], turn=turn)
            forest.add("tool", 1, turn=turn)
        members.append(episode(forest.segments, slot=slot, outcome=reward))
    return members


EXPLORING = batch(["look", "open", "take", "go"], [1.0, 0.0])
LOOPING = batch(["look", "look", "look", "look"], [0.1, 0.1])
DIFFERING = batch(["look", "look", "look", "look"], [1.0, 0.0])
SOLVED = batch(["look", "open", "take", "go"], [1.0, 1.0])


def told(*steps):
    watch = EchoWatch()
    return [sentence for step, members in enumerate(steps, 1) for sentence in watch.see(step, members)]


@pytest.mark.row("S299")
def test_repetition_and_a_collapse_of_rewards_together_raise_the_alarm_on_a_looping_policy():
    (sentence,) = told(*[EXPLORING] * 6, *[LOOPING] * 10)
    assert sentence.startswith("echo trap at step 10: over the last 5 steps 60% of turns repeat an earlier one")
    assert "differ by 0.1 (std), where they once differed by 0.5" in sentence


@pytest.mark.parametrize("later", [DIFFERING, SOLVED, EXPLORING], ids=["repeats", "is solved", "explores"])
def test_either_alone_raises_none(later):
    assert told(*[EXPLORING] * 6, *[later] * 10) == []


def test_rewards_that_never_differed_have_not_collapsed():
    assert told(*[LOOPING] * 20) == []


def test_the_alarm_is_raised_again_only_after_it_had_gone():
    assert len(told(*[EXPLORING] * 6, *[LOOPING] * 9, *[EXPLORING] * 6, *[LOOPING] * 9)) == 2


def test_what_has_no_turns_or_no_rewards_is_passed_over():
    once = batch(["look"], [0.0, 0.0])
    unscored = batch(["look", "look"], ["grader_error", "grader_error"])
    assert told(*[EXPLORING] * 6, *[once] * 9, *[unscored] * 9, []) == []
