"""The invariants of random legal compositions: for each part that there is, one with it and others by lot."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms.catalogue import PARTS
from rollwright.algorithms.describe import describe, qualified_name
from tests.algorithms.battery import (
    check_cuts,
    check_finite_differences,
    check_order,
    check_padded,
    check_poison,
    check_quiet_rows,
    check_single_precision,
    check_states,
    check_unchanged,
)
from tests.algorithms.drawn_batches import GROUPS, batches, episodes_of, seeded
from tests.algorithms.drawn_objectives import drawn_with, names_of_choices

CHOICES = names_of_choices()
each_choice = pytest.mark.parametrize(("kind", "name"), CHOICES, ids=[f"{kind}-{name}" for kind, name in CHOICES])


OF_ROWS = [(kind, name) for kind, name in CHOICES if kind in ("ratio", "correction", "normalized")]
each_of_rows = pytest.mark.parametrize(("kind", "name"), OF_ROWS, ids=[f"{kind}-{name}" for kind, name in OF_ROWS])
"""What looks at rows and prefixes, or drops them: where an update has few rows, or empty ones, matters."""
few = settings(max_examples=6)


def draws_of(kind, name):
    """Draws of its own, and the seed of its update, for each composition."""
    seed = random.Random(f"{kind}/{name}").randrange(2**31)
    return random.Random(seed), seed


@each_choice
def test_gradients_do_not_depend_on_cut_order_padding_or_packing(kind, name):
    objective, (draws, seed) = drawn_with(kind, name).objective, draws_of(kind, name)
    batch = seeded(seed)
    rows = draws.sample(range(len(GROUPS)), len(GROUPS))
    check_cuts(objective, batch, draws.sample(range(len(GROUPS) + 1), 3), rows)
    episodes = episodes_of(batch)
    check_order(objective, batch, [row for episode in draws.sample(episodes, len(episodes)) for row in episode])
    check_padded(objective, batch)


@each_choice
def test_what_is_under_a_mask_changes_nothing(kind, name):
    check_poison(drawn_with(kind, name).objective, seeded(draws_of(kind, name)[1]))


@each_choice
def test_an_unchanged_policy_has_ratio_one_and_no_divergence(kind, name):
    check_unchanged(drawn_with(kind, name).objective, seeded(draws_of(kind, name)[1], distance=0.0))


@each_choice
def test_gradients_are_those_of_finite_differences(kind, name):
    drawn = drawn_with(kind, name)
    check_finite_differences(drawn.objective, seeded(draws_of(kind, name)[1]), drawn.held)


@each_of_rows
@few
@given(batch=batches(), data=st.data())
def test_updates_of_any_shape_have_gradients_of_no_cut_and_no_mask(kind, name, batch, data):
    objective = drawn_with(kind, name).objective
    cuts = data.draw(st.lists(st.integers(0, len(batch.lengths)), max_size=3))
    check_cuts(objective, batch, cuts, data.draw(st.permutations(range(len(batch.lengths)))))
    check_poison(objective, batch)


@each_of_rows
@few
@given(batch=batches(unchanged=True))
def test_updates_of_any_shape_have_ratio_one_where_the_policy_is_unchanged(kind, name, batch):
    check_unchanged(drawn_with(kind, name).objective, batch)


@each_of_rows
@few
@given(batch=batches())
def test_updates_of_any_shape_have_gradients_of_finite_differences(kind, name, batch):
    drawn = drawn_with(kind, name)
    check_finite_differences(drawn.objective, batch, drawn.held)


@each_choice
def test_quiet_rows_stay_quiet_states_stand_still_and_single_precision_is_enough(kind, name):
    objective, batch = drawn_with(kind, name).objective, seeded(draws_of(kind, name)[1])
    check_quiet_rows(objective, batch)
    check_states(objective, batch)
    check_single_precision(objective, batch)


@each_choice
def test_what_is_refused_is_refused_with_a_sentence(kind, name):
    for sentence in drawn_with(kind, name).refusals:
        assert sentence.endswith(".") and len(sentence.split()) > 8, sentence


def test_every_part_of_the_catalogue_stands_in_a_legal_composition():
    found = {one.name for kind, name in CHOICES for one in describe(drawn_with(kind, name).objective).walk()}
    assert {qualified_name(part.make) for part in PARTS} - found == set()
