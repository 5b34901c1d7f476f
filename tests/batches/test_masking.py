import numpy as np
import pytest
from hypothesis import given

from rollwright.algorithms.presets import rloo
from rollwright.batches import action_mask, plan_step, sampled_mask, tool_mask, value_mask
from rollwright.record import Origin
from tests.batches.episodes import ON_POLICY, POLICY, Forest, chat, episode, group
from tests.batches.strategies import steps
from tests.cases import case


def bits(mask) -> list[int]:
    return mask.astype(int).tolist()


@pytest.mark.case("F20")
def test_the_sampled_stop_token_is_trained_and_nothing_after_it():
    given_case = case("F20")
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", given_case.input["completion_ids"][:3], finish="stop_token")
    forest.add("template", given_case.input["completion_ids"][3:])
    batch = plan_step([group(episode(forest.segments))], step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    assert bits(action_mask(forest.segments, POLICY))[2:] == given_case.expect["loss_mask"]
    assert bits(batch.acts)[2:] == given_case.expect["loss_mask"]


@pytest.mark.case("F29")
def test_every_sampled_turn_is_trained_not_only_the_last():
    names: dict[str, Origin] = {"user": "user", "model": "policy", "tool": "tool"}
    kinds = case("F29").input["kinds"]
    forest = Forest()
    for kind in kinds:
        forest.add(names[kind], 1)
    assert bits(action_mask(forest.segments, POLICY)) == case("F29").expect["loss_mask"]


@pytest.mark.case("F19")
def test_headers_and_blocks_of_the_template_are_not_trained():
    given_case = case("F19")
    ids, spans = given_case.input["ids"], given_case.input["spans"]
    origins: dict[str, Origin] = {
        "user_turn": "user", "assistant_header": "template", "empty_think_block_from_template": "template",
        "sampled": "policy", "separator_after_close": "template",
    }  # fmt: skip
    forest = Forest()
    for name, (start, stop) in spans.items():
        forest.add(origins[name], ids[start:stop])
    assert [t for s in forest.segments for t in s.token_ids.tolist()] == ids
    assert bits(action_mask(forest.segments, POLICY)) == given_case.expect["loss_mask"]


@pytest.mark.case("F26")
def test_tool_tokens_are_in_the_row_but_in_no_component():
    expect = case("F26").expect
    path = chat(("policy", 2), ("tool", 2), ("policy", 1))
    assert bits(tool_mask(path)) == [0, 0, 1, 1, 0]
    behind_a_task = chat(("task", 1), ("policy", 2), ("tool", 2), ("policy", 1))
    assert bits(action_mask(behind_a_task, POLICY))[1:] == expect["loss_mask"]


def test_the_first_token_of_a_row_is_never_trained_because_nothing_predicts_it():
    assert bits(action_mask(chat(("policy", 3)), POLICY)) == [0, 1, 1]


def test_masks_tell_policies_and_demonstrations_apart():
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", 1)
    forest.add("policy", 1, policy="solver")
    forest.add("demonstration", 1)
    assert bits(action_mask(forest.segments, POLICY)) == [0, 1, 0, 0]
    assert bits(action_mask(forest.segments, frozenset({("demonstration", None)}))) == [0, 0, 0, 1]
    assert bits(sampled_mask(forest.segments)) == [0, 1, 1, 0]


@given(steps())
def test_acts_of_a_batch_are_the_action_masks_of_its_paths(groups):
    batch = plan_step(groups, step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    paths = [[batch.members[row.member].trajectory.segments[s] for s in row.segments] for row in batch.rows]
    masks = [action_mask(path, POLICY) for path in paths]
    assert np.array_equal(batch.acts, np.concatenate([np.zeros(0, bool), *masks]))
    assert all(np.array_equal(value_mask(path, POLICY), mask) for path, mask in zip(paths, masks, strict=True))


@given(steps())
def test_what_is_trained_was_sampled_by_the_trained_policy(groups):
    batch = plan_step(groups, step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    origin = np.concatenate(
        [
            np.repeat([(s.origin, s.policy) == ("policy", "policy")], s.num_tokens)
            for row in batch.rows
            for s in (batch.members[row.member].trajectory.segments[n] for n in row.segments)
        ]
    )
    assert not (batch.action_mask & ~origin).any()
    assert not np.isnan(batch.behavior[batch.action_mask]).any()
