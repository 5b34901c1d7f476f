"""The driver with a customer who answers: what the customer says is of the user, and never trained on."""

import numpy as np
import pytest

from rollwright.engines import PlayedEngine, ScriptedEngine, replies_in_order
from rollwright.recipes.worlds import load_world
from rollwright.record import TerminalReason
from rollwright.rollout import Limits, submission_of
from rollwright.tasks import SplitSizes
from tests.rollout.fakes import drive, spec_of

ROOM = Limits(turns=16, turn_tokens=400, episode_tokens=4000, context_tokens=4000)


@pytest.fixture(scope="module")
def visit():
    world = load_world("dialogue", {"slices": "changed_mind", "rules": ""})
    return world, world.tasks(SplitSizes(train=1, held_out=0), 0)[0].train[0]


def turns_of(world, task, renderer):
    turns = world.reference(task, 0)
    return [renderer.encode_turn(t.text, [(c.tool, c.arguments) for c in t.calls]) for t in turns]


@pytest.mark.row("S456")
def test_a_whole_visit_is_played_and_what_the_customer_says_is_of_the_user(renderer, visit):
    world, task = visit
    spec = spec_of(ROOM, task=task, purpose="demonstration", action_origin="demonstration")
    done = drive(renderer, world.environment, PlayedEngine(turns_of(world, task, renderer)), spec)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    passages = submission_of(done, renderer).passages
    heard = [passage.text for passage in passages if passage.kind == "user"][1:]
    assert len(heard) == 4 and heard[2].startswith("No, wait.") and heard[3] == "Yes."
    assert [row.status for row in done.tool_calls] == ["ok", "ok"]


def test_no_token_of_the_customer_or_of_a_tool_has_a_logprob_of_the_policy(renderer, visit):
    world, task = visit
    engine = ScriptedEngine(replies_in_order([turn.tolist() for turn in turns_of(world, task, renderer)]))
    done = drive(renderer, world.environment, engine, spec_of(ROOM, task=task))
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    origins = {segment.origin for segment in done.segments}
    assert {"policy", "user", "tool", "task"} <= origins
    for segment in done.segments:
        is_sampled = segment.origin == "policy"
        assert (segment.behavior_logprobs is not None) is is_sampled
        if segment.behavior_logprobs is not None:
            assert np.isfinite(segment.behavior_logprobs).all()
