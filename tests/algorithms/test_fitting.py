"""Tensors that do not fit each other are refused by name, instead of being stretched over one another."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.presets import grpo
from rollwright.algorithms.trial import trial_inputs, trial_streams

INPUTS = trial_inputs(4)
STREAMS = trial_streams(grpo(), INPUTS, grpo().credit(INPUTS), distance=0.05)
ROWS, TOKENS = len(INPUTS.rewards), int(INPUTS.row_offsets[-1])
NO_TOKENS = torch.zeros(0, dtype=torch.float64)

OF_ROWS = ("rewards", "group_index", "source_index", "episode_index", "is_truncated")
OF_TOKENS = ("step_rewards", "turn_index", "state_index")
OF_STREAMS = ("advantages", "token_weights", "policy_versions")


@pytest.mark.parametrize("name", [*OF_ROWS, *OF_TOKENS])
@pytest.mark.parametrize("cut", [lambda one: one[:1], lambda one: one[:-1], lambda one: one[:, None]])
def test_an_input_of_credit_has_one_value_for_each_row_or_token(name, cut):
    given = cut(getattr(INPUTS, name))
    due, of = (ROWS, "rows") if name in OF_ROWS else (TOKENS, "action tokens")
    says = rf"{name} has shape \({', '.join(map(str, given.shape))},?\); for {due} {of} it has \({due},\)"
    with pytest.raises(ObjectiveError, match=says):
        replace(INPUTS, **{name: given})


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("rewards", torch.int64),
        ("rewards", torch.float32),
        ("step_rewards", torch.float32),
        ("group_index", torch.float64),
        ("episode_index", torch.int32),
        ("is_truncated", torch.int64),
        ("turn_index", torch.float64),
    ],
)
def test_an_input_of_credit_has_its_type(name, dtype):
    given = torch.nan_to_num(getattr(INPUTS, name).to(torch.float64)).to(dtype)
    with pytest.raises(ObjectiveError, match=f"{name} has type {dtype}; it has torch"):
        replace(INPUTS, **{name: given})


@pytest.mark.parametrize(
    ("offsets", "says"),
    [
        (INPUTS.row_offsets.flip(0), "it starts at 0 and never falls"),
        (INPUTS.row_offsets + 1, "it starts at 0 and never falls"),
        (INPUTS.row_offsets.to(torch.float64), r"type torch.float64; it has \(rows \+ 1,\) int64"),
        (INPUTS.row_offsets[None], r"it has \(rows \+ 1,\) int64"),
        (INPUTS.row_offsets[:0], r"it has \(rows \+ 1,\) int64"),
        (INPUTS.row_offsets[:-1], f"rewards has shape .*; for {ROWS - 1} rows"),
    ],
)
def test_offsets_cut_the_tokens_into_rows(offsets, says):
    with pytest.raises(ObjectiveError, match=says):
        replace(INPUTS, row_offsets=offsets)


@pytest.mark.parametrize("name", OF_STREAMS)
@pytest.mark.parametrize("cut", [lambda one: one[:1], lambda one: one[:-1], lambda one: one[:, None]])
def test_a_stream_of_the_loss_has_one_value_for_each_token(name, cut):
    with pytest.raises(ObjectiveError, match=rf"{name} has shape .*; for {len(STREAMS.action_mask)} tokens"):
        replace(STREAMS, **{name: cut(getattr(STREAMS, name))})


@pytest.mark.parametrize("name", ["behavior", "proximal", "current"])
@pytest.mark.parametrize("cut", [lambda one: one[:1], lambda one: one[:, None]])
def test_scores_are_not_stretched_over_tokens(name, cut):
    given = {one: torch.zeros(len(STREAMS.action_mask)) for one in ("behavior", "proximal", "current")}
    with pytest.raises(ObjectiveError, match=f"{name} has shape"):
        replace(STREAMS, logprobs={**given, name: cut(given[name])})


def test_a_mask_is_bool_and_the_offsets_end_with_it():
    with pytest.raises(ObjectiveError, match="action_mask has type torch.int64; it has torch.bool"):
        replace(STREAMS, action_mask=STREAMS.action_mask.to(torch.int64))
    with pytest.raises(ObjectiveError, match=r"row_offsets ends at \d+; the stream has \d+ tokens"):
        replace(STREAMS, row_offsets=STREAMS.row_offsets[:-1])


def test_no_rows_and_rows_without_tokens_fit():
    nothing = dict.fromkeys(("turn_index", "state_index"), NO_TOKENS.to(torch.int64))
    empty = replace(INPUTS, row_offsets=torch.zeros(ROWS + 1, dtype=torch.int64), step_rewards=NO_TOKENS, **nothing)
    assert len(empty.rewards) == ROWS
