"""Budgets of effort."""

import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import ObjectiveError, center_within_group, imitate
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.effort import (
    EFFORT_LEVELS,
    effort_budget,
    effort_length_penalty,
    effort_pressure,
    missing_budgets,
)
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def shaped_by(stage, inputs, **settings):
    seen = []
    stage(inputs, credit=lambda shaped: seen.append(shaped) or imitate(shaped), **settings)
    return seen[0].rewards.tolist()


def with_budgets(inputs, *budgets):
    return replace(inputs, values={"cold_start_budget": torch.tensor(budgets, dtype=torch.float64)})


def test_it_matches_the_worked_numbers():
    fixture = method_fixture("M91.a")
    inputs = with_budgets(credit_inputs(fixture.input["R"], lengths=fixture.input["len"]), *[fixture.input["b0"]] * 3)
    assert shaped_by(effort_budget, inputs, multiplier=fixture.input["tau"]) == fixture.expect["R_out"]


@pytest.mark.row("S305")
def test_all_turns_and_rows_of_an_attempt_count_against_the_budget_of_its_own_problem():
    # Two rows of one attempt, 7 + 6 tokens in four turns; the second problem has a budget of its own.
    inputs = credit_inputs([1, 1, 1, 1], episodes=[0, 0, 1, 2], groups=[0, 0, 0, 1], lengths=[7, 6, 12, 12])
    turns = torch.tensor([0] * 3 + [1] * 4 + [2] * 2 + [3] * 4 + [0] * 12 + [0] * 12)
    inputs = with_budgets(replace(inputs, turn_index=turns), 10, 10, 10, 5)
    # τ·b₀ = 12 and 6: 13 tokens are over, 12 are not, and 12 are where the problem has less.
    assert shaped_by(effort_budget, inputs, multiplier=1.2) == [-1.0, -1.0, 1.0, -1.0]


def test_exactly_the_budget_is_inside():
    inputs = with_budgets(credit_inputs([1], lengths=[10]), 10)
    assert shaped_by(effort_budget, inputs, multiplier=1.0) == [1.0]


def test_without_a_budget_there_is_no_penalty_and_it_is_counted():
    inputs = with_budgets(credit_inputs([1, 1], lengths=[90, 90]), math.nan, 10)
    assert shaped_by(effort_budget, inputs, multiplier=1.0) == [1.0, -1.0]
    assert missing_budgets(inputs) == 1


def test_an_unscored_attempt_stays_unscored():
    inputs = with_budgets(credit_inputs([None, 1, 0], lengths=[90, 1, 1]), 10, 10, 10)
    assert effort_budget(inputs, credit=center_within_group, multiplier=1.0).untrained == {0: "unscored"}


def test_the_multiplier_may_anneal_down():
    inputs = with_budgets(credit_inputs([1], lengths=[15]), 10)
    multiplier = LinearAnneal(start=2.0, end=1.0, over=2)
    assert shaped_by(effort_budget, inputs, multiplier=multiplier) == [1.0]
    multiplier.observe({})
    multiplier.observe({})
    assert shaped_by(effort_budget, inputs, multiplier=multiplier) == [-1.0]


def test_constants_that_were_not_disclosed_have_no_default():
    inputs = with_budgets(credit_inputs([1]), 10)
    with pytest.raises(ObjectiveError, match="multiplier has no default: the report on Kimi K3"):
        effort_budget(inputs, credit=imitate)
    with pytest.raises(ObjectiveError, match="multiplier of the budget is 0"):
        effort_budget(inputs, credit=imitate, multiplier=0.0)


@pytest.mark.row("S306")
def test_effort_is_of_one_scale_and_larger_effort_has_less_pressure():
    assert dict(EFFORT_LEVELS) == {"low": 50, "high": 75, "max": 100}
    pressure = effort_pressure(torch.arange(1, 101).double(), scale=0.3)
    assert (pressure.diff() < 0).all()
    assert float(pressure[0]) == pytest.approx(0.3) and float(pressure[-1]) == 0.0
    with pytest.raises(ObjectiveError, match="scale has no default: the report on DeepSeek V4.1 did not disclose it"):
        effort_pressure(torch.tensor([50.0]))


def test_pressure_is_paid_by_length():
    inputs = replace(
        credit_inputs([1, 1, 1, 1], lengths=[50, 50, 100, 50]),
        values={"effort": torch.tensor([50.0, 75.0, 75.0, math.nan]).double()},
    )
    due = [1 - 0.99 * 50 / 99 * 0.5, 1 - 0.99 * 25 / 99 * 0.5, 1 - 0.99 * 25 / 99, 1.0]
    assert shaped_by(effort_length_penalty, inputs, max_tokens=100, scale=0.99) == pytest.approx(due)


@pytest.mark.parametrize("effort", [0.0, 101.0])
def test_an_effort_outside_the_scale_is_refused(effort):
    with pytest.raises(ObjectiveError, match=r"outside 1…100"):
        effort_pressure(torch.tensor([effort]), scale=1.0)
