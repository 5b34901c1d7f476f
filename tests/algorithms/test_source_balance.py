"""Each source's share of the objective; each conversation's."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    FixedLength,
    ObjectiveError,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
    row_lengths,
)
from rollwright.algorithms.denominators.plain import EpisodeMean
from rollwright.algorithms.denominators.source_balance import SourceBalance, source_masses
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture

BASES = [TokenMean(), ResponseMean(), SequenceSum(), FixedLength(length=5), PromptMean(), EpisodeMean()]
drawn_rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=7)


def inputs_of(lengths, sources, **options):
    return replace(
        credit_inputs([0.0] * len(lengths), lengths=lengths, **options),
        source_index=torch.tensor(sources, dtype=torch.int64),
    )


def by_row(weights, lengths):
    return [float(part.sum()) for part in weights.split(list(lengths))]


def test_the_worked_numbers_of_two_sources():
    fixture = method_fixture("M77.a")
    numbers = {name: number for number, name in enumerate(fixture.input["target"])}
    inputs = inputs_of(fixture.input["len"], [numbers[source] for source in fixture.input["source"]])
    targets = {numbers[name]: share for name, share in fixture.input["target"].items()}
    base = source_masses(TokenMean()(inputs, None), inputs)
    assert base == pytest.approx({numbers[name]: mass for name, mass in fixture.expect["base_mass"].items()})
    weights = SourceBalance(base=TokenMean(), targets=targets)(inputs, None)
    assert by_row(weights, fixture.input["len"]) == pytest.approx(fixture.expect["row_mass"])
    scaled = source_masses(weights, inputs)
    assert {n: scaled[n] / base[n] for n in base} == pytest.approx(
        {numbers[name]: scale for name, scale in fixture.expect["scale"].items()}
    )


@given(rows=drawn_rows, base=st.sampled_from(BASES), data=st.data())
def test_each_source_has_its_target_and_the_closed_form_holds(rows, base, data):
    lengths, sources = [n for n, _ in rows], [s for _, s in rows]
    inputs = inputs_of(lengths, sources)
    targets = {0: 0.5, 1: 0.3, 2: 0.2}
    keep = torch.tensor(data.draw(st.lists(st.booleans(), min_size=sum(lengths), max_size=sum(lengths)))).bool()
    for counted, kept in ((base, None), (replace(base, counting="kept"), keep)):
        rule = SourceBalance(base=counted, targets=targets)
        weights = rule(inputs, kept)
        lengths_counted = row_lengths(inputs, kept)
        present = {s for n, s in zip(lengths_counted.num_tokens.tolist(), sources, strict=True) if n}
        for source, mass in source_masses(weights, inputs).items():
            assert mass == pytest.approx(targets[source] if source in present else 0.0)
        assert float(weights.sum()) == pytest.approx(rule.weight_sum(lengths_counted), abs=1e-12)
        assert rule.denominator(lengths_counted) == counted.denominator(lengths_counted)


def test_the_mass_of_an_absent_source_stays_unassigned():
    inputs = inputs_of([2, 4], [7, 7])
    rule = SourceBalance(base=TokenMean(), targets={7: 0.25, 8: 0.75})
    assert by_row(rule(inputs, None), [2, 4]) == pytest.approx([0.25 / 3, 0.5 / 3])
    assert rule.weight_sum(row_lengths(inputs, None)) == 0.25


def test_within_a_source_the_base_is_what_it_was():
    inputs = inputs_of([2, 8, 4], [0, 0, 1])
    masses = by_row(SourceBalance(base=ResponseMean(), targets={0: 0.5, 1: 0.5})(inputs, None), [2, 8, 4])
    assert masses == pytest.approx([0.25, 0.25, 0.5])


def test_a_source_without_a_target_is_refused():
    rule = SourceBalance(base=TokenMean(), targets={0: 1.0})
    with pytest.raises(ObjectiveError, match=r"sources \[3\] have trained tokens but no target"):
        rule(inputs_of([1, 1], [0, 3]), None)
    # Without trained tokens it needs none.
    assert rule(inputs_of([1, 0], [0, 3]), None).tolist() == [1.0]


@pytest.mark.parametrize("targets", [{}, {0: -0.1, 1: 0.5}, {0: 0.7, 1: 0.7}, {0: 0.0}, {0: math.nan}])
def test_targets_that_are_no_shares_are_refused(targets):
    with pytest.raises(ObjectiveError, match="targets of a source balance"):
        SourceBalance(base=TokenMean(), targets=targets)


def test_a_balance_of_a_balance_is_refused():
    once = SourceBalance(base=TokenMean(), targets={0: 1.0})
    with pytest.raises(ObjectiveError, match="once"):
        SourceBalance(base=once, targets={0: 1.0})


@pytest.mark.row("S165")
def test_each_conversation_is_equal_however_long_its_answers():
    # A conversation that reads much and writes two tokens, against one that writes eight in two rows. What was read
    # is no action token and stands in no row of weights.
    inputs = credit_inputs([0.0] * 3, lengths=[2, 5, 3], episodes=[0, 1, 1])
    weights = EpisodeMean()(inputs, None)
    assert by_row(weights, [2, 5, 3]) == pytest.approx([0.5, 0.5 * 5 / 8, 0.5 * 3 / 8])
    assert float(TokenMean()(inputs, None)[:2].sum()) == pytest.approx(0.2), "the token mean gives it a fifth"
    lengths = row_lengths(inputs, None)
    assert EpisodeMean().denominator(lengths) == 2.0 and EpisodeMean().weight_sum(lengths) == 1.0


@given(rows=drawn_rows)
def test_an_episode_weighs_the_same_in_one_row_or_many(rows):
    lengths, episodes = [n for n, _ in rows], [e for _, e in rows]
    inputs = credit_inputs([0.0] * len(rows), lengths=lengths, episodes=episodes)
    masses: dict[int, float] = {}
    for episode, mass in zip(episodes, by_row(EpisodeMean()(inputs, None), lengths), strict=True):
        masses[episode] = masses.get(episode, 0.0) + mass
    counted = {episode for length, episode in rows if length}
    for episode in counted:
        assert masses[episode] == pytest.approx(1 / len(counted))
