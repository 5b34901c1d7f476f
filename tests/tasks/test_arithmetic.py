"""The default task and its three slices."""

from collections import Counter

import pytest

from rollwright.tasks import (
    EASY,
    ERROR,
    HARD,
    UNDEFINED,
    ArithmeticShares,
    ExpressionError,
    Mixture,
    SplitSizes,
    Stratum,
    TaskError,
    TaskOrder,
    arithmetic_strata,
    evaluate,
    gold_of,
    number_text,
    payload_of,
    slice_of,
)
from rollwright.tasks.arithmetic import _slice


@pytest.fixture(scope="module")
def strata() -> tuple[Stratum, ...]:
    return arithmetic_strata(SplitSizes(train=600, held_out=200), shares=ArithmeticShares(), seed=7)


def test_the_slices_hold_what_was_asked_for(strata: tuple[Stratum, ...]) -> None:
    assert [s.name for s in strata] == [EASY, HARD, ERROR]
    assert sum(len(s.train) for s in strata) == 600
    assert sum(len(s.held_out) for s in strata) == 200
    assert all(slice_of(task) == s.name for s in strata for task in (*s.train, *s.held_out))
    assert all(task.task_id.startswith("arithmetic/") for s in strata for task in s.train)


def test_every_gold_answer_is_the_exact_value_of_its_expression(strata: tuple[Stratum, ...]) -> None:
    for one in strata:
        for task in (*one.train, *one.held_out):
            payload = payload_of(task)
            expression = payload.text("expression")
            assert expression in payload.messages[0].text
            if one.name == ERROR:
                assert payload.answer == UNDEFINED
                with pytest.raises(ExpressionError, match="division by zero"):
                    evaluate(expression)
            else:
                assert payload.answer == number_text(evaluate(expression))
                assert payload.answer.lstrip("-").isdigit()


def test_an_error_cannot_be_told_from_the_form_alone(strata: tuple[Stratum, ...]) -> None:
    # Divisions by a difference stand in both slices; only the value of the divisor tells them apart.
    hard = [payload_of(t).text("expression") for t in strata[1].train]
    error = [payload_of(t).text("expression") for t in strata[2].train]
    shape = {e.translate(str.maketrans("0123456789", "9" * 10)) for e in error}
    assert shape & {e.translate(str.maketrans("0123456789", "9" * 10)) for e in hard}


def test_easy_is_sums_of_two_digits_and_hard_is_not(strata: tuple[Stratum, ...]) -> None:
    assert all(len(payload_of(t).text("expression")) == 3 for t in strata[0].train)
    assert all(len(payload_of(t).text("expression")) >= 5 for t in strata[1].train)


def test_the_mixture_is_valid_and_draws_by_share(strata: tuple[Stratum, ...]) -> None:
    mixture = Mixture(strata=strata)
    order = TaskOrder(mixture, seed=0)
    drawn = Counter(order.draw().stratum for _ in range(1000))
    assert drawn == {EASY: 200, HARD: 650, ERROR: 150}
    listed = Counter(slice_of(t) for t in mixture.hold_out(200).tasks)
    assert listed[EASY] >= 30
    assert listed[ERROR] >= 30


def test_equal_seeds_give_equal_tasks_and_a_seed_changes_no_side() -> None:
    sizes = SplitSizes(train=60, held_out=20)
    one, other = (arithmetic_strata(sizes, shares=ArithmeticShares(), seed=seed) for seed in (1, 2))
    _slice.cache_clear()
    again = arithmetic_strata(sizes, shares=ArithmeticShares(), seed=1)
    assert again == one and again[0].train[0] is not one[0].train[0]
    assert {t.task_id for s in one for t in s.train} != {t.task_id for s in other for t in s.train}
    assert not {t.task_id for s in one for t in s.train} & {t.task_id for s in other for t in s.held_out}


def test_a_slice_without_weight_is_left_out() -> None:
    shares = ArithmeticShares(easy=0.0, hard=1.0, error=0.0)
    only = arithmetic_strata(SplitSizes(train=20, held_out=10), shares=shares, seed=0)
    assert [(s.name, len(s.train), len(s.held_out)) for s in only] == [(HARD, 20, 10)]
    with pytest.raises(TaskError, match="not all 0"):
        arithmetic_strata(SplitSizes(train=20, held_out=10), shares=ArithmeticShares(easy=0, hard=0, error=0), seed=0)


def test_gold_of_knows_the_one_word() -> None:
    assert gold_of("6/(3-3)") == UNDEFINED
    assert gold_of("6/3") == "2"
    with pytest.raises(ExpressionError, match="too large"):
        gold_of("9**9**9")
