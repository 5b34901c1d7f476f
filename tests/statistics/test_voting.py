"""Majority votes: worked numbers, the exact mean over subsets by enumeration, ties and invalid answers."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import StatisticsError, majority_at_k, majority_of_all, pass_at_k
from tests.cases import method_fixture

answers = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8)


def by_enumeration(given_answers, correct, k, *, lost=False):
    """The mean over all subsets of size k, each vote counted by itself."""
    worth = Fraction(0)
    subsets = list(itertools.combinations(given_answers, k))
    for subset in subsets:
        votes = Counter(answer for answer in subset if answer is not None)
        winners = [answer for answer, count in votes.items() if count == max(votes.values())]
        if correct in winners:
            worth += Fraction(int(len(winners) == 1)) if lost else Fraction(1, len(winners))
    return float(worth / len(subsets))


def test_the_vote_over_all_matches_the_worked_numbers():
    fixture = method_fixture("M128.a")
    given_answers, correct = fixture.input["answers"], fixture.input["correct"]
    assert majority_of_all(given_answers, correct, ties="first") == fixture.expect["strict_first_tie"]
    assert majority_of_all(given_answers, correct) == fixture.expect["expected_over_ties"]
    assert majority_of_all(given_answers, correct, ties="lost") == 0.0


def test_a_tie_goes_to_the_answer_seen_first_where_that_is_the_rule():
    assert majority_of_all(["7", "3", "3", "7"], "7", ties="first") == 1.0
    assert majority_of_all(["3", "7", "7", "3"], "7", ties="first") == 0.0


@given(given_answers=answers, data=st.data())
def test_the_value_at_k_is_the_mean_over_all_subsets(given_answers, data):
    k = data.draw(st.integers(1, len(given_answers)))
    assert majority_at_k(given_answers, "a", k) == pytest.approx(by_enumeration(given_answers, "a", k), abs=1e-12)
    lost = by_enumeration(given_answers, "a", k, lost=True)
    assert majority_at_k(given_answers, "a", k, ties="lost") == pytest.approx(lost, abs=1e-12)


@given(given_answers=answers)
def test_a_vote_over_all_attempts_is_the_vote_at_n_and_one_attempt_is_the_share_of_right_ones(given_answers):
    whole = majority_of_all(given_answers, "a")
    assert majority_at_k(given_answers, "a", len(given_answers)) == pytest.approx(whole)
    share = given_answers.count("a") / len(given_answers)
    assert majority_at_k(given_answers, "a", 1) == pytest.approx(share)
    lost = majority_of_all(given_answers, "a", ties="lost")
    assert lost is not None and whole is not None and lost <= whole


@given(given_answers=answers, data=st.data())
def test_the_vote_never_exceeds_coverage_and_does_not_look_at_the_order(given_answers, data):
    k = data.draw(st.integers(1, len(given_answers)))
    shuffled = data.draw(st.permutations(given_answers))
    found = majority_at_k(given_answers, "a", k)
    assert found == majority_at_k(shuffled, "a", k)
    covered = pass_at_k(len(given_answers), given_answers.count("a"), k)
    assert found is not None and covered is not None and found <= covered + 1e-12


def test_invalid_answers_take_attempts_and_cast_no_votes():
    assert majority_of_all([None, None, "7"], "7") == 1.0
    assert majority_of_all([None, None], "7") == 0.0
    # Of the three pairs two hold the vote for 7, one holds none.
    assert majority_at_k([None, None, "7"], "7", 2) == pytest.approx(2 / 3)


def test_many_attempts_are_counted_exactly_in_little_time():
    many = ["7"] * 20 + [str(n % 13) + "x" for n in range(44)]
    found = majority_at_k(many, "7", 32)
    assert found is not None and 0.99 < found <= 1.0


def test_what_a_sample_cannot_say_is_undefined_and_what_means_nothing_is_refused():
    assert majority_of_all([], "7") is None
    assert majority_at_k(["7"], "7", 2) is None
    with pytest.raises(StatisticsError, match="invalid answer"):
        majority_of_all(["7"], None)
    with pytest.raises(StatisticsError, match="at least 1"):
        majority_at_k(["7"], "7", 0)
