"""Attention over a trie against every row alone, in float64 with a dense mask."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as flex_operator
from torch.nn.attention.flex_attention import create_block_mask

from rollwright.learner.tree_attention import flex_tree_attention, tree_attention
from rollwright.learner.trie import BLOCK_TOKENS, CALL_PAIRS, MASK_NUMBERS, PackedRows, pack_rows, tree_mask

LENGTHS = st.sampled_from([0, 1, 2, 7, 30, BLOCK_TOKENS, 90])
CUTS = st.tuples(st.integers(0, 1 << 16), st.integers(0, 1 << 16), LENGTHS, st.integers(0, 1 << 16))
TRIES = st.lists(CUTS, min_size=1, max_size=8)
"""Each row takes a beginning of a row before it, of any length, and goes on from there."""
HEADS = st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 1)])


def rows_of(cuts: Sequence[tuple[int, int, int, int]]) -> list[list[int]]:
    rows: list[list[int]] = []
    for parent, kept, length, seed in cuts:
        above = rows[parent % len(rows)] if rows else []
        draw = random.Random(seed)
        row = above[: kept % (len(above) + 1)] + [draw.randrange(3) for _ in range(length)]
        rows.append(row or [0])
    return rows


def packed(rows: Sequence[Sequence[int]]) -> PackedRows:
    tokens = torch.tensor([token for row in rows for token in row])
    return pack_rows(tokens, torch.tensor(np.cumsum([0, *map(len, rows)])))


def sees(packing: PackedRows) -> Tensor:
    """(u, u) by the rows themselves: what stands before a token, and itself, in any row that it stands in."""
    visible = torch.zeros(len(packing.distinct), len(packing.distinct), dtype=torch.bool)
    for low, high in pairwise(packing.row_offsets.tolist()):
        states = packing.state_of[low:high]
        for place in range(high - low):
            visible[states[place], states[: place + 1]] = True
    return visible


def states_of(packing: PackedRows, heads: tuple[int, int], *, dtype=torch.float32) -> list[Tensor]:
    """Query, key, value and the gradient of the output."""
    generator = torch.Generator().manual_seed(len(packing.distinct))
    num_keys, group = heads
    counts = (num_keys * group, num_keys, num_keys, num_keys * group)
    return [torch.randn(len(packing.distinct), count, 8, generator=generator).to(dtype) for count in counts]


def dense(packing: PackedRows, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    group = query.shape[1] // key.shape[1]
    key, value = (one.repeat_interleave(group, 1) for one in (key, value))
    scores = torch.einsum("ihd,jhd->hij", query, key) / 3
    masses = scores.masked_fill(~sees(packing), -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", masses, value)


def with_gradients(attend, inputs: Sequence[Tensor], due: Tensor) -> list[Tensor]:
    """The output, and the gradients of query, key and value."""
    leaves = [one.clone().requires_grad_() for one in inputs]
    out = attend(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, due)]


def assert_equal_to_dense(packing: PackedRows, heads: tuple[int, int], *, dtype: torch.dtype, bound: float) -> None:
    *inputs, due = states_of(packing, heads, dtype=dtype)
    found = with_gradients(lambda q, k, v: tree_attention(q, k, v, packing, 1 / 3), inputs, due)
    exact = with_gradients(lambda q, k, v: dense(packing, q, k, v), [one.double() for one in inputs], due.double())
    scale = max(float(one.norm()) for one in exact)
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        assert float((ours.double() - theirs).norm()) <= bound * scale


@settings(max_examples=50)
@given(TRIES)
def test_every_token_stands_where_one_with_the_same_beginning_is_computed(cuts):
    rows = rows_of(cuts)
    packing = packed(rows)
    tokens = torch.tensor([token for row in rows for token in row])
    assert torch.equal(tokens[packing.distinct][packing.state_of], tokens)
    beginnings = [tuple(row[: column + 1]) for row in rows for column in range(len(row))]
    states = packing.state_of.tolist()
    assert len(set(zip(states, beginnings, strict=True))) == len(set(beginnings)) == len(packing.distinct)


@settings(max_examples=30)
@given(TRIES)
def test_tiles_cover_each_pair_that_sees_once_and_no_other(cuts):
    packing = packed(rows_of(cuts))
    count = torch.zeros(len(packing.distinct), len(packing.distinct), dtype=torch.int64)
    for tile in packing.blocks:
        size = (tile.queries.stop - tile.queries.start) // tile.repeats
        causal = torch.block_diag(*[torch.ones(size, size).tril()] * tile.repeats)
        count[tile.queries, tile.keys] += (causal if tile.mask is None else tile.mask == 0).long()
    for tile in packing.trunks:
        count[tile.queries, tile.keys] += 1 if tile.mask is None else (tile.mask == 0).long()
    assert torch.equal(count, sees(packing).long())
    places = torch.arange(len(packing.distinct))
    by_ends = (places <= places[:, None]) & (places[:, None] < packing.ends)
    assert torch.equal(by_ends, sees(packing))


@settings(max_examples=30)
@given(TRIES, HEADS)
def test_output_and_gradients_equal_every_row_alone(cuts, heads):
    assert_equal_to_dense(packed(rows_of(cuts)), heads, dtype=torch.float32, bound=2e-6)


@settings(max_examples=20)
@given(TRIES, HEADS)
def test_bf16_states_stay_within_their_rounding(cuts, heads):
    assert_equal_to_dense(packed(rows_of(cuts)), heads, dtype=torch.bfloat16, bound=2e-2)


NAMED = {
    "one token": [[1]],
    "equal rows": [[1, 2, 3]] * 3,
    "rows that begin longer rows": [[1] * length for length in (200, 3, 90, 1)],
    "a long prompt of many short branches": [[1] * 300 + [2, branch, 3] for branch in range(30)],
    "system, task, turn, branch": [
        [0] * 70 + [task] * 80 + [turn] * 66 + [branch] * 5 for task in (1, 2) for turn in (1, 2) for branch in (1, 2)
    ],
    "a short beginning of all, and one of each group": [
        [0] * 4 + [1 + group // 2] + [1 + group] * 27 + [branch] * (60 + branch % 2)
        for group in range(4)
        for branch in range(6)
    ],
    "a branch at every token": [[0] * depth + [1] for depth in range(150)],
    "nothing shared": [[row] * (row + 60) for row in range(5)],
    "rows of one length": [[1] * 40 + [row] * 70 for row in range(5)] + [[2]],
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_shapes_equal_every_row_alone(name):
    assert_equal_to_dense(packed(NAMED[name]), (2, 2), dtype=torch.float32, bound=2e-6)


def test_a_shared_beginning_is_one_tile_whatever_the_number_of_rows():
    packing = packed(NAMED["a long prompt of many short branches"])
    assert [tile.keys for tile in packing.trunks] == [slice(0, 301)]
    assert len(packing.blocks) <= 3
    assert packed(NAMED["nothing shared"]).trunks == ()


def test_a_short_beginning_is_taken_along_by_the_longer_ones_behind_it():
    rows = [[0] * 4 + [group] * 28 + [9 + branch] * 60 for group in (1, 2, 3) for branch in range(8)]
    found = [(tile.queries.stop - tile.queries.start, tile.keys) for tile in packed(rows).trunks]
    assert [count for count, _ in found] == [88, 88, 420, 420, 420]
    assert [keys for _, keys in found[:2]] == [slice(0, 4)] * 2
    taken = [keys.tolist()[:5] for _, keys in found if isinstance(keys, Tensor)]
    assert taken == [[0, 1, 2, 3, first] for first in (4, 512, 1020)]


def test_neighbors_of_one_length_are_one_tile():
    blocks = packed(NAMED["rows of one length"]).blocks
    assert [(tile.queries.stop - tile.queries.start, tile.repeats) for tile in blocks] == [(110, 1), (280, 4), (1, 1)]


def test_the_number_of_tiles_grows_with_the_tokens_and_not_with_the_branches():
    packing = packed(NAMED["a branch at every token"])
    pairs = int(sees(packing).sum())
    masked = sum(tile.mask.numel() for tile in packing.trunks if tile.mask is not None)
    assert len(packing.trunks) <= pairs / CALL_PAIRS + 1
    assert masked <= len(packing.trunks) * MASK_NUMBERS


def test_the_order_of_the_rows_changes_no_bit_of_a_token():
    rows = NAMED["system, task, turn, branch"]
    first, second = packed(rows), packed(rows[::-1])
    assert torch.equal(first.ends, second.ends)
    query, key, value, _ = states_of(first, (2, 2))
    one, other = (tree_attention(query, key, value, packing, 1 / 3) for packing in (first, second))
    assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("name", ["system, task, turn, branch", "a branch at every token", "nothing shared"])
def test_flex_attention_sees_what_the_tiles_see(name):
    packing = packed(NAMED[name])
    query, key, value, _ = states_of(packing, (2, 2))
    found = flex_tree_attention(query, key, value, packing, 1 / 3)
    exact = tree_attention(query, key, value, packing, 1 / 3)
    assert float((found - exact).norm()) <= 2e-6 * float(exact.norm())


def eager_flex(packing: PackedRows, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """FlexAttention's operator by itself, whose backward torch refuses on a CPU and has there all the same."""
    options = {"BACKEND": "AUTO", "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "BLOCKS_ARE_CONTIGUOUS": False}
    options |= {"WRITE_DQ": True, "OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False}
    queries, keys, values = (one.transpose(0, 1).unsqueeze(0) for one in (query, key, value))
    mask = tree_mask(packing.ends).as_tuple()
    found = flex_operator(queries, keys, values, lambda score, *_: score, mask, 1 / 3, options)
    return found[0][0].transpose(0, 1)


@pytest.mark.parametrize("name", ["system, task, turn, branch", "a branch at every token", "nothing shared"])
def test_flex_attention_has_the_gradients_of_the_tiles(name):
    packing = packed(NAMED[name])
    *inputs, due = states_of(packing, (2, 2))
    found = with_gradients(lambda q, k, v: eager_flex(packing, q, k, v), inputs, due)
    exact = with_gradients(lambda q, k, v: tree_attention(q, k, v, packing, 1 / 3), inputs, due)
    for ours, theirs in zip(found, exact, strict=True):
        assert float((ours - theirs).norm()) <= 2e-6 * float(theirs.norm())


@settings(max_examples=20)
@given(TRIES)
def test_the_blocks_of_the_mask_are_those_that_all_pairs_have(cuts):
    ends = packed(rows_of(cuts)).ends

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < ends[key])

    ours, theirs = tree_mask(ends), create_block_mask(sees, None, None, len(ends), len(ends), device="cpu")
    for name in ("kv", "full_kv", "q", "full_q"):
        counts, blocks = getattr(ours, f"{name}_num_blocks"), getattr(ours, f"{name}_indices")
        assert torch.equal(counts, getattr(theirs, f"{name}_num_blocks"))
        for row, count in enumerate(counts[0, 0].tolist()):
            assert torch.equal(blocks[0, 0, row, :count], getattr(theirs, f"{name}_indices")[0, 0, row, :count])


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(NAMED))
def test_flex_attention_has_the_gradients_of_every_row_alone(name):
    rows = NAMED[name]
    tokens = torch.tensor([token for row in rows for token in row], device="cuda")
    packing = pack_rows(tokens, torch.tensor(np.cumsum([0, *map(len, rows)])))
    *inputs, due = (one.cuda() for one in states_of(packed(rows), (2, 2)))
    found = with_gradients(lambda q, k, v: tree_attention(q, k, v, packing, 1 / 3), inputs, due)
    wide = [one.double().cpu() for one in inputs]
    exact = with_gradients(lambda q, k, v: dense(packed(rows), q, k, v), wide, due.double().cpu())
    for ours, theirs in zip(found, exact, strict=True):
        assert float((ours.double().cpu() - theirs).norm()) <= 1e-2 * float(theirs.norm()) + 1e-3
