"""Which rows stand in one micro-batch: groups whole where they fit, their common beginning counted once."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.batches.errors import BatchError
from rollwright.batches.filling import Counted, fill, shared_beginnings

rows_of_groups = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=1, max_size=6),
        st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=5),
    ),
    max_size=6,
)
"""Of each group the prompt, and what follows it in each row."""


def laid_out(groups):
    """(ids, bounds, group of each row, rows as tuples)."""
    rows = [(number, (*prompt, *rest)) for number, (prompt, rests) in enumerate(groups) for rest in rests]
    ends = np.cumsum([len(row) for _, row in rows], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(rows)]
    ids = np.asarray([token for _, row in rows for token in row], np.int32)
    bounds = np.stack([starts, ends], axis=1) if rows else np.zeros((0, 2), np.int64)
    return ids, bounds, np.asarray([number for number, _ in rows], np.int64), [row for _, row in rows]


def num_distinct(rows) -> int:
    """Tokens that a model computes where it computes every beginning once."""
    return len({row[: end + 1] for row in rows for end in range(len(row))})


@given(rows_of_groups, st.integers(1, 40), st.sampled_from(Counted))
def test_every_row_stands_in_exactly_one_part(groups, budget, counted):
    ids, bounds, numbers, rows = laid_out(groups)
    parts = fill(ids, bounds, numbers, budget, counted)
    assert sorted(place for part in parts for place in part) == list(range(len(rows)))


@given(rows_of_groups, st.integers(1, 40))
def test_no_part_computes_more_tokens_than_the_budget_but_for_a_long_row(groups, budget):
    ids, bounds, numbers, rows = laid_out(groups)
    for part in fill(ids, bounds, numbers, budget):
        held = [rows[place] for place in part]
        assert len(held) == 1 or num_distinct(held) <= budget
        assert len(held) == 1 or sum(map(len, held)) <= 8 * budget


@given(rows_of_groups, st.integers(1, 40))
def test_a_budget_of_rows_counts_every_copy(groups, budget):
    ids, bounds, numbers, rows = laid_out(groups)
    for part in fill(ids, bounds, numbers, budget, Counted.ROWS):
        assert len(part) == 1 or sum(len(rows[place]) for place in part) <= budget


@given(rows_of_groups, st.integers(1, 40))
def test_a_group_within_the_budget_is_not_torn(groups, budget):
    ids, bounds, numbers, rows = laid_out(groups)
    parts = fill(ids, bounds, numbers, budget)
    for number in range(len(groups)):
        own = [place for place in range(len(rows)) if numbers[place] == number]
        after_prompt = [
            len(rows[own[0]]),
            *(len(rows[b]) - common(rows[a], rows[b]) for a, b in pairwise(own)),
        ]
        if sum(after_prompt) <= budget and sum(len(rows[place]) for place in own) <= 8 * budget:
            assert sum(not set(part).isdisjoint(own) for part in parts) == 1


@given(rows_of_groups, st.integers(1, 40))
def test_a_part_has_its_rows_longest_first(groups, budget):
    ids, bounds, numbers, rows = laid_out(groups)
    for part in fill(ids, bounds, numbers, budget):
        assert list(part) == sorted(part, key=lambda place: (-len(rows[place]), place))


@given(rows_of_groups, st.integers(1, 40), st.integers(1, 1000))
def test_what_tokens_are_called_does_not_move_a_row(groups, budget, shift):
    ids, bounds, numbers, _ = laid_out(groups)
    assert fill(ids, bounds, numbers, budget) == fill(ids + shift, bounds, numbers * 7 + shift, budget)


@given(rows_of_groups)
def test_common_beginnings_are_those_of_neighbors(groups):
    ids, bounds, _, rows = laid_out(groups)
    due = [0, *(common(a, b) for a, b in pairwise(rows))][: len(rows)]
    assert shared_beginnings(ids, bounds).tolist() == due


def common(above, below) -> int:
    """Tokens that two rows begin with alike."""
    pairs = list(zip(above, below, strict=False))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))


def test_groups_with_a_long_prompt_share_a_part_and_rows_of_one_are_not_scattered():
    # Four groups of 4: prompts of 50, completions of 1 to 4 tokens, so that by length the groups would be mixed.
    groups = [([0] * 6 + [number] * 44, [[10 + n, *range(n)] for n in range(4)]) for number in range(1, 5)]
    ids, bounds, numbers, _ = laid_out(groups)
    # A group has 50 + 10 distinct tokens, of which 6 are everybody's: 60 + 54 for two.
    assert fill(ids, bounds, numbers, 114) == ((3, 7, 2, 6, 1, 5, 0, 4), (11, 15, 10, 14, 9, 13, 8, 12))
    assert [len(part) for part in fill(ids, bounds, numbers, 113)] == [4, 4, 4, 4]


def test_parts_are_about_equally_large():
    # Ten rows of 10 tokens: a budget of 90 needs two parts, which take five rows each, not nine and one.
    ids, bounds, numbers, _ = laid_out([([], [[number] * 10]) for number in range(10)])
    assert [len(part) for part in fill(ids, bounds, numbers, 90)] == [5, 5]


def test_a_group_above_the_budget_is_split_evenly_and_counts_its_prompt_in_each_piece():
    # A prompt of 10 and six completions of 4: 34 tokens, of which a budget of 26 holds four rows.
    ids, bounds, numbers, _ = laid_out([([0] * 10, [[n] * 4 for n in range(1, 7)])])
    assert [len(part) for part in fill(ids, bounds, numbers, 26)] == [3, 3]


def test_nothing_gives_no_parts():
    nothing = np.zeros(0, np.int64)
    assert fill(nothing.astype(np.int32), np.zeros((0, 2), np.int64), nothing, 5) == ()


def test_a_budget_below_one_is_refused():
    with pytest.raises(BatchError, match="at least 1"):
        fill(np.zeros(3, np.int32), np.asarray([[0, 3]]), np.zeros(1, np.int64), 0)
