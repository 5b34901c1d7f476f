"""Rows are shared out by tokens, not by count."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.batches import BatchError
from rollwright.batches.balancing import balanced_groups, balanced_parts


def heavy_tail(seed: int, count: int = 48) -> list[int]:
    """Lengths of rows, most of them short and a few very long."""
    draws = np.random.default_rng(seed).pareto(1.3, count)
    return np.minimum(200 * (1 + draws), 16_000).astype(int).tolist()


def spread(lengths: Sequence[int], parts: Sequence[Sequence[int]]) -> int:
    """Of the loads, largest minus smallest, in tokens."""
    loads = [sum(lengths[place] for place in part) for part in parts]
    return max(loads) - min(loads)


def round_robin(lengths: Sequence[int], num_parts: int) -> list[list[int]]:
    return [list(range(part, len(lengths), num_parts)) for part in range(num_parts)]


def greedy(lengths: Sequence[int], num_parts: int) -> list[list[int]]:
    """Longest first, each to the part that has least."""
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        min(parts, key=lambda part: sum(lengths[p] for p in part)).append(place)
    return parts


@pytest.mark.row("S255")
@pytest.mark.parametrize("num_parts", [2, 4, 8])
def test_on_heavy_tailed_lengths_the_loads_differ_less_than_in_turn_and_than_greedily(num_parts: int):
    found = {name: 0 for name in ("balanced", "greedy", "in turn")}
    for seed in range(10):
        lengths = heavy_tail(seed)
        # A row that is longer than an equal share is the largest load of any sharing.
        if max(lengths) > sum(lengths) / num_parts:
            continue
        found["balanced"] += spread(lengths, balanced_parts(lengths, num_parts))
        found["greedy"] += spread(lengths, greedy(lengths, num_parts))
        found["in turn"] += spread(lengths, round_robin(lengths, num_parts))
    assert found["balanced"] < found["greedy"] < found["in turn"]


@given(st.lists(st.integers(0, 10_000), max_size=30), st.integers(1, 9))
def test_every_row_is_in_one_part_and_the_same_rows_give_the_same_parts(lengths, num_parts):
    parts = balanced_parts(lengths, num_parts)
    assert len(parts) == num_parts and sorted(p for part in parts for p in part) == list(range(len(lengths)))
    assert parts == balanced_parts(list(lengths), num_parts)
    assert spread(lengths, parts) <= max(lengths, default=0)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7))
def test_two_parts_of_few_rows_are_near_the_best_there_is(lengths):
    ways = product((0, 1), repeat=len(lengths))
    best = min(abs(sum(-n if side else n for n, side in zip(lengths, way, strict=True))) for way in ways)
    assert best <= spread(lengths, balanced_parts(lengths, 2)) <= max(lengths)


def test_worked_numbers():
    # 8 - 7 = 1 and 6 - 5 = 1; 4 - 1 = 3, 3 - 1 = 2: loads of 14 and 16, where greedy gives 17 and 13.
    lengths = [8, 7, 6, 5, 4]
    assert sorted(sum(lengths[p] for p in part) for part in balanced_parts(lengths, 2)) == [14, 16]
    assert spread(lengths, greedy(lengths, 2)) == 4


def test_no_parts_are_refused():
    with pytest.raises(BatchError, match="at least 1"):
        balanced_parts([1], 0)


rows_of_groups = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 500)), max_size=40)


@given(rows_of_groups, st.integers(1, 5))
def test_groups_are_torn_only_where_whole_ones_make_uneven_loads(rows, num_parts):
    groups, lengths = [group for group, _ in rows], [length for _, length in rows]
    parts = balanced_groups(lengths, groups, num_parts)
    assert sorted(place for part in parts for place in part) == list(range(len(rows)))
    holders = [{number for number, part in enumerate(parts) for p in part if groups[p] == g} for g in set(groups)]
    if all(len(of_group) == 1 for of_group in holders):
        return
    assert parts == balanced_parts(lengths, num_parts)


def test_two_parts_take_two_of_four_equal_groups_each():
    groups = [number for number in range(4) for _ in range(3)]
    parts = balanced_groups([10] * 12, groups, 2)
    assert [sorted({groups[place] for place in part}) for part in parts] == [[0, 3], [1, 2]]


def test_one_group_is_shared_out_by_rows():
    assert sorted(map(len, balanced_groups([10] * 8, [5] * 8, 4))) == [2, 2, 2, 2]


def test_no_rows_give_empty_parts():
    assert balanced_groups([], [], 3) == ((), (), ())
