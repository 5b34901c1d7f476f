"""Likelihood of successful rows beside the policy gradient."""

import pytest
import torch

from rollwright.algorithms import ObjectiveError, check_objective, grpo, row_lengths, with_regularizer
from rollwright.algorithms.regularizers.positive_nll import SuccessfulTokenMean, positive_nll
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, pack, run, weights_of
from tests.cases import method_fixture


def with_term(**settings):
    return with_regularizer(grpo(), positive_nll(**settings), needs=frozenset())


def batch_of(rewards, lengths):
    inputs = credit_inputs(rewards, lengths=lengths)
    scores = -1.0 - torch.arange(int(inputs.row_offsets[-1]), dtype=torch.float64)
    return Batch(inputs=inputs, logprobs={"current": scores, "proximal": scores})


def test_it_matches_the_worked_numbers():
    fixture = method_fixture("M92.a")
    inputs = credit_inputs(fixture.input["success"], lengths=[2, 1])
    logprobs = torch.tensor(fixture.input["logp"], dtype=torch.float64)
    batch = Batch(inputs=inputs, logprobs={"current": logprobs, "proximal": logprobs})
    objective = with_term(coefficient=fixture.input["mu"])
    packed = pack(objective, batch, [0, 1], weights=weights_of(objective, batch))
    terms, _ = run(objective, packed)
    assert float(terms.terms["positive_nll"].detach().sum()) == pytest.approx(fixture.expect["term"], rel=fixture.tol)
    assert fixture.expect["nll"] * fixture.input["mu"] == pytest.approx(fixture.expect["term"])


@pytest.mark.row("S156")
def test_the_gradient_comes_from_successful_rows_alone():
    # One reward level a group: the policy term has no gradient, so that what is left is the likelihood's.
    batch = batch_of([1.0, 1.0], [2, 3])
    assert _gradient(batch).tolist() == pytest.approx([-0.1 / 5] * 5)
    failed = batch_of([0.0, 0.0], [2, 3])
    assert not _gradient(failed).any()
    mixed, without = batch_of([1.0, 0.0, None], [2, 3, 1]), batch_of([1.0, 0.0, None], [2, 3, 1])
    added = _gradient(mixed) - gradient_of(grpo(), without, _pieces(grpo(), without))[1]
    assert added.tolist() == pytest.approx([-0.05, -0.05, 0, 0, 0, 0])


def _gradient(batch):
    objective = with_term()
    return gradient_of(objective, batch, _pieces(objective, batch))[1]


def _pieces(objective, batch):
    weights = weights_of(objective, batch)
    return [pack(objective, batch, [row], weights=weights) for row in range(len(batch.lengths))]


def test_the_count_is_that_of_the_update_however_it_is_cut():
    batch = batch_of([1.0, 0.0, 1.0], [2, 3, 4])
    objective = with_term()
    weights = weights_of(objective, batch)
    whole = gradient_of(objective, batch, [pack(objective, batch, range(3), weights=weights)])
    cut = gradient_of(objective, batch, _pieces(objective, batch))
    assert cut[0] == pytest.approx(whole[0]) and cut[1].tolist() == pytest.approx(whole[1].tolist())


@pytest.mark.parametrize(("rewards", "due"), [([1.0, 0.0], 2.0), ([0.0, None], 0.0), ([0.5, 2.0], 3.0)])
def test_the_closed_form_is_that_of_the_weights(rewards, due):
    rule, inputs = SuccessfulTokenMean(), credit_inputs(rewards, lengths=[2, 3])
    sums = row_lengths(inputs, None)
    assert float(rule(inputs, None).sum()) == pytest.approx(rule.weight_sum(sums))
    assert rule.denominator(sums) == due


def test_an_objective_with_the_term_is_sound():
    check_objective(with_term(), group_size=4)


def test_a_keep_mask_and_a_threshold_of_nothing_are_refused():
    with pytest.raises(ObjectiveError, match="was given a keep mask"):
        SuccessfulTokenMean()(credit_inputs([1.0]), torch.ones(1, dtype=torch.bool))
    with pytest.raises(ObjectiveError, match="threshold of a success is NaN"):
        SuccessfulTokenMean(threshold=float("nan"))
