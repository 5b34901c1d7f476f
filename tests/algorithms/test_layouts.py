"""Padded batches and back; that they have the loss and gradient of packed ones is in the battery."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, grpo
from rollwright.algorithms.layouts import (
    PaddedBatch,
    credit_inputs_from_padded,
    from_padded,
    streams_from_padded,
    to_padded,
)


@st.composite
def padded_batches(draw):
    """Rows with masks that have gaps, left and right padding; poison at every masked place."""
    num_rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    cells = draw(st.lists(st.booleans(), min_size=num_rows * width, max_size=num_rows * width))
    mask = torch.tensor(cells).view(num_rows, width)
    poison = draw(st.sampled_from([float("nan"), float("inf"), 1e30]))
    draws = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def scores():
        values = -2.0 * torch.rand(num_rows, width, generator=draws, dtype=torch.float64)
        return torch.where(mask, values, torch.tensor(poison, dtype=torch.float64))

    levels = st.sampled_from([0.0, 0.5, 1.0, float("nan")])
    return PaddedBatch(
        action_mask=mask,
        rewards=torch.tensor(draw(st.lists(levels, min_size=num_rows, max_size=num_rows)), dtype=torch.float64),
        group_index=torch.tensor(sorted(draw(st.lists(st.integers(0, 1), min_size=num_rows, max_size=num_rows)))),
        logprobs={name: scores() for name in ("behavior", "proximal", "current")},
        of_rows={"is_truncated": torch.tensor(draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows)))},
        of_tokens={"step_rewards": torch.where(mask, torch.rand(num_rows, width, generator=draws).double(), 0.0)},
    )


@given(batch=padded_batches())
def test_wider_padding_changes_nothing(batch):
    def wider(stream, filler):
        edge = torch.full((len(stream), 2), filler, dtype=stream.dtype)
        return torch.cat([edge, stream, edge], dim=1)

    wide = PaddedBatch(
        action_mask=wider(batch.action_mask, filler=False),
        rewards=batch.rewards,
        group_index=batch.group_index,
        logprobs={name: wider(stream, float("nan")) for name, stream in batch.logprobs.items()},
        of_rows=batch.of_rows,
        of_tokens={name: wider(stream, 0.0) for name, stream in batch.of_tokens.items()},
    )
    narrow, found = credit_inputs_from_padded(batch), credit_inputs_from_padded(wide)
    for name in ("rewards", "row_offsets", "step_rewards", "group_index", "episode_index", "turn_index"):
        assert torch.equal(getattr(narrow, name).nan_to_num(9.0), getattr(found, name).nan_to_num(9.0))
    for name in narrow.logprobs:
        assert torch.equal(narrow.logprobs[name], found.logprobs[name])


@given(batch=padded_batches())
def test_there_and_back_is_the_identity(batch):
    mask = batch.action_mask
    values = torch.arange(float(mask.sum()), dtype=torch.float64)
    padded = to_padded(values, mask)
    assert torch.equal(from_padded(padded, mask), values)
    assert not padded[~mask].any()


def test_rewards_on_other_places_move_to_an_action_token():
    batch = PaddedBatch(
        action_mask=torch.tensor([[True, False, True, False], [False, False, True, False], [False] * 4]),
        rewards=torch.tensor([0.0, 1.0, 1.0]),
        group_index=torch.tensor([0, 0, 0]),
        of_tokens={"step_rewards": torch.tensor([[0.0, 2.0, 0.0, 3.0], [5.0, 0.0, 0.0, 0.0], [7.0, 0.0, 0.0, 0.0]])},
    )
    inputs = credit_inputs_from_padded(batch)
    assert inputs.step_rewards.tolist() == [2.0, 3.0, 5.0]
    assert inputs.row_offsets.tolist() == [0, 2, 3, 3]
    assert inputs.step_rewards.dtype == torch.float64 and inputs.rewards.dtype == torch.float64


def test_what_is_left_out_has_the_value_that_is_named():
    batch = PaddedBatch(
        action_mask=torch.tensor([[True, True], [True, False]]),
        rewards=torch.tensor([0, 1]),
        group_index=torch.tensor([3, 3]),
        of_rows={"role": torch.tensor([4, 5])},
        values={"predicted": torch.tensor([[0.1, 0.2], [0.3, 9.0]]), "bootstrap": torch.tensor([1.0, 2.0])},
    )
    inputs = credit_inputs_from_padded(batch)
    assert inputs.source_index.tolist() == [0, 0] and inputs.episode_index.tolist() == [0, 1]
    assert inputs.is_truncated.tolist() == [False, False]
    assert inputs.turn_index.tolist() == [0, 0, 0] and inputs.state_index.tolist() == [-1, -1, -1]
    assert inputs.keys["role"].tolist() == [4, 5] and list(inputs.keys) == ["role"]
    assert inputs.values["predicted"].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert inputs.values["bootstrap"].tolist() == [1.0, 2.0]
    streams = streams_from_padded(batch, advantages=torch.zeros(2, 2), token_weights=torch.ones(3))
    assert streams.policy_versions.tolist() == [-1] * 4 and streams.token_weights.tolist() == [1.0, 1.0, 1.0, 0.0]


def test_rows_and_places_of_equal_number_are_not_taken_for_each_other():
    # Batch size equal to width: a wrong axis would not fail by its shape.
    mask = torch.tensor([[True, False], [True, True]])
    assert to_padded(torch.tensor([1.0, 2.0, 3.0]), mask).tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert from_padded(torch.tensor([[1.0, 9.0], [2.0, 3.0]]), mask).tolist() == [1.0, 2.0, 3.0]


MASK = torch.tensor([[True, False]])
BATCH = partial(PaddedBatch, action_mask=MASK, rewards=torch.zeros(1), group_index=torch.zeros(1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (partial(BATCH, action_mask=torch.ones(2, dtype=torch.bool)), r"\(B, T\) bool"),
        (partial(BATCH, action_mask=torch.ones(1, 2)), "torch.float32"),
        (partial(BATCH, rewards=torch.zeros(2)), r"rewards has shape \(2,\)"),
        (partial(BATCH, logprobs={"current": torch.zeros(2)}), r"current has shape \(2,\)"),
        (partial(BATCH, values={"predicted": torch.zeros(3)}), r"predicted has shape \(3,\)"),
        (partial(BATCH, of_rows={"role": torch.zeros(1, 2)}), r"role has shape \(1, 2\)"),
        (partial(BATCH, of_tokens={"turn": torch.zeros(1, 2)}), r"of_tokens has \['turn'\]"),
        (lambda: to_padded(torch.zeros(2), MASK), "has 1 action tokens"),
        (lambda: from_padded(torch.zeros(2, 1), MASK), "they match"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(make, sentence):
    with pytest.raises(ObjectiveError, match=sentence):
        make()


def test_an_empty_batch_is_an_empty_one():
    batch = PaddedBatch(
        action_mask=torch.zeros(0, 3, dtype=torch.bool), rewards=torch.zeros(0), group_index=torch.zeros(0)
    )
    inputs = credit_inputs_from_padded(batch)
    assert inputs.row_offsets.tolist() == [0] and len(grpo().credit(inputs).advantages) == 0
