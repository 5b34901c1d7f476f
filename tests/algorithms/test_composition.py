"""The loss of a composition by hand: what non-finite scores, cut tokens and components of their own do to it."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import (
    ObjectiveError,
    ResponseMean,
    TokenMean,
    center_within_group,
    grpo,
    kept_tokens,
    kl_k1,
    loss_terms,
    no_correction,
    score_function,
    staleness_ratio,
    supervised,
)
from rollwright.algorithms.flags import NON_FINITE, TOKEN_MASK, has_flag
from tests.algorithms.battery import whole
from tests.algorithms.pieces import Batch, credit_inputs, run
from tests.algorithms.preset_table import with_keep, with_kl
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture


def test_a_non_finite_score_is_masked_flagged_and_stays_in_the_denominator():
    objective = grpo()
    inputs = credit_inputs([1.0, 0.0], lengths=[2, 2])
    scores = torch.tensor([-1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    clean = Batch(inputs=inputs, logprobs={"current": scores, "proximal": scores})
    broken = scores.clone()
    broken[1] = float("nan")
    for name in ("current", "proximal"):
        batch = Batch(inputs=inputs, logprobs={**clean.logprobs, name: broken})
        packed = whole(objective, batch)
        terms, gradient = run(objective, packed)
        mask = packed.streams.action_mask
        assert has_flag(terms.flags[mask], NON_FINITE).tolist() == [False, True, False, False]
        assert terms.keep[mask].tolist() == [True, False, True, True]
        _, whole_gradient = run(objective, whole(objective, clean))
        expected = whole_gradient[mask].clone()
        expected[1] = 0.0
        assert torch.equal(gradient[mask], expected)


def test_streams_that_the_objective_does_not_read_may_be_anything():
    objective = supervised()
    piece = streams([1.0, 1.0], current=[-1.0, -2.0], behavior=[float("nan")] * 2, reference=[float("inf")] * 2)
    terms = loss_terms(objective, piece, {})
    assert float(terms.loss) == pytest.approx(1.5)
    assert terms.keep.all()


def test_kept_tokens_are_known_before_the_update():
    objective = with_keep(grpo(), "kept")
    piece = streams([1.0, 1.0, 1.0], behavior=[-1.0, -1.0, float("nan")], proximal=[-1.1, -3.0, -1.0])
    kept = kept_tokens(objective, piece)
    assert kept.keep.tolist() == [True, False, False]
    assert has_flag(kept.flags, TOKEN_MASK).tolist() == [False, True, False]
    assert has_flag(kept.flags, NON_FINITE).tolist() == [False, False, True]


def test_a_correction_weighs_the_surrogate_and_has_no_gradient_of_its_own():
    fixture = method_fixture("M44.a")
    scores = {
        "behavior": fixture.input["beh"],
        "proximal": fixture.input["prox"],
        "current": torch.tensor(fixture.input["cur"], dtype=torch.float64, requires_grad=True),
    }
    objective = replace(grpo(), correction=staleness_ratio, needs=frozenset({"behavior", "proximal"}))
    terms = loss_terms(objective, streams([1.0, 1.0], **scores), {})
    assert terms.correction.tolist() == pytest.approx(fixture.expect["c"])
    assert terms.ratio.tolist() == pytest.approx(fixture.expect["r"])
    # Two tokens of weight 1/2; the worked products are what is maximised, and also its slope in the log-probability.
    products = [-product / 2 for product in fixture.expect["c_times_r"]]
    assert terms.terms["policy_gradient"].tolist() == pytest.approx(products)
    (gradient,) = torch.autograd.grad(terms.loss, scores["current"])
    assert gradient.tolist() == pytest.approx(products)


@pytest.mark.parametrize(("counting", "due"), [("structural", -1 / 3), ("kept", -1 / 2)])
def test_a_cut_token_leaves_the_numerator_and_only_under_kept_the_denominator(counting, due):
    objective = replace(with_keep(grpo(), counting), correction=no_correction)
    inputs = credit_inputs([1.0], lengths=[3])
    current = torch.full((3,), -1.0, dtype=torch.float64, requires_grad=True)
    piece = streams([1.0] * 3, behavior=[-1.0, -3.0, -1.0], proximal=[-1.0] * 3, current=current)
    keep = kept_tokens(objective, piece).keep
    assert keep.tolist() == [True, False, True]
    weights = objective.weights(inputs, keep if counting == "kept" else None)
    terms = loss_terms(objective, replace(piece, token_weights=weights), {})
    (gradient,) = torch.autograd.grad(terms.loss, current)
    assert gradient.tolist() == pytest.approx([due, 0.0, due])
    assert terms.terms["policy_gradient"].tolist() == pytest.approx([due, 0.0, due])
    assert has_flag(terms.flags, TOKEN_MASK).tolist() == [False, True, False]


def test_components_are_normalised_each_by_its_own_count():
    fixture = method_fixture("M78.a")
    # A component with tokens of its own is one piece of weights; without tokens it is 0.
    sums, counts = fixture.input["sums"], [fixture.input[f"{name}_tokens"] for name in ("rl", "ce", "ref_kl")]
    total = 0.0
    for value, count in zip(sums, counts, strict=True):
        weights = TokenMean()(credit_inputs([0.0], lengths=[count]), None)
        total += float((weights * (value / max(count, 1))).sum())
    assert total == pytest.approx(fixture.expect["loss"], abs=fixture.tol)


def test_a_regularizer_without_weights_is_refused():
    piece = streams([1.0], current=[0.0], proximal=[0.0], reference=[0.0])
    with pytest.raises(ObjectiveError, match="'kl' has no token weights"):
        loss_terms(with_kl(grpo()), piece, {})


@pytest.mark.case("F11")
def test_a_loss_of_zero_is_no_sign_of_health():
    given_case = case("F11")
    advantages = given_case.input["advantages"]
    lengths = given_case.input["lengths"]
    inputs = credit_inputs([0.0, 0.0], lengths=lengths)
    for weights, due in (
        (ResponseMean(), given_case.expect["response_mean_loss"]),
        (TokenMean(), given_case.expect["token_mean_loss"]),
    ):
        objective = grpo(weights=weights)
        flat = [advantage for advantage, n in zip(advantages, lengths, strict=True) for _ in range(n)]
        scores = torch.full((sum(lengths),), -1.0, dtype=torch.float64, requires_grad=True)
        piece = replace(streams(flat, current=scores, proximal=scores.detach()), token_weights=weights(inputs, None))
        loss = loss_terms(objective, piece, {}).loss
        (gradient,) = torch.autograd.grad(loss, scores)
        assert float(loss.detach()) == pytest.approx(due, abs=1e-12)
        assert bool(gradient.any()) is not given_case.expect["gradient_is_zero"]


# Case F26 without its attention mask, which is the learner's.
def test_tool_tokens_carry_no_loss_and_no_kl():
    given_case = case("F26")
    mask = [kind == "model" for kind in given_case.input["ids_kind"]]
    assert [int(is_action) for is_action in mask] == given_case.expect["loss_mask"]
    objective = with_kl(score_function("mean", credit=center_within_group, weights=TokenMean()), kl_k1)
    regularizer = replace(objective.regularizers[0], coefficient=given_case.input["beta"])
    objective = replace(objective, regularizers=(regularizer,))
    weights = torch.full((5,), 1 / 3, dtype=torch.float64)
    losses = torch.tensor(given_case.input["per_token_loss"], dtype=torch.float64)
    piece = streams(
        [1.0] * 5,
        mask=mask,
        current=-losses,
        reference=-losses - torch.tensor(given_case.input["per_token_kl"], dtype=torch.float64),
    )
    terms = loss_terms(objective, replace(piece, token_weights=weights), {"kl": weights})
    assert float(terms.terms["policy_gradient"].sum()) == pytest.approx(given_case.expect["policy_term"])
    assert float(terms.terms["kl"].sum()) == pytest.approx(given_case.expect["kl_term"])
    assert float(terms.loss) == pytest.approx(given_case.expect["total"])
