"""Invariants that hold for every preset and for random legal compositions."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import (
    Clip,
    Counting,
    FixedLength,
    Keep,
    ObjectiveError,
    PromptMean,
    Regularizer,
    ResponseMean,
    SequenceSum,
    TokenMean,
    bypassing_proximal,
    center_within_group,
    clipped,
    dapo,
    dr_grpo,
    exclude_truncated,
    grpo,
    kept_tokens,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_plus,
    leave_one_out,
    loss_terms,
    mask_truncated,
    no_correction,
    punish_truncated,
    reinforce,
    rloo,
    score_function,
    staleness_ratio,
    standardize_within_group,
    supervised,
    with_regularizer,
)
from rollwright.algorithms.flags import NON_FINITE, TOKEN_MASK, ZERO_ADVANTAGE, has_flag, raise_flag
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, pack, run, weights_of
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture

LOGPROB_STREAMS = ("behavior", "proximal", "current", "reference")
POISON = (float("nan"), float("inf"), float("-inf"), 1e30)


def with_kl(objective, estimate=kl_k3, weights=None):
    regularizer = Regularizer(component="kl", coefficient=0.1, per_token=estimate, weights=weights or TokenMean())
    return with_regularizer(objective, regularizer, needs=frozenset({"reference"}))


def keep_near(piece):
    """A keep rule for the tests: drop tokens whose proximal policy moved far from the behavior policy."""
    is_kept = piece.action_mask & ((staleness_ratio(piece) - 1).abs() <= 0.5)
    return Keep(keep=is_kept, flags=raise_flag(piece.action_mask & ~is_kept, TOKEN_MASK))


def with_keep(objective, counting: Counting = "structural"):
    return replace(
        objective,
        keep=keep_near,
        correction=staleness_ratio,
        weights=TokenMean(counting=counting),
        needs=objective.needs | {"behavior", "proximal"},
    )


PRESETS = {
    "reinforce": reinforce(baseline=0.5),
    "rloo": rloo(),
    "grpo": grpo(),
    "grpo with kl": with_kl(grpo()),
    "grpo bypass": bypassing_proximal(grpo()),
    "dr_grpo": dr_grpo(max_tokens=16),
    "dapo": dapo(max_tokens=6, buffer_tokens=4),
    "supervised": supervised(),
    "corrected": with_keep(grpo()),
    "corrected, kept": with_keep(grpo(), "kept"),
}
presets = pytest.mark.parametrize("objective", PRESETS.values(), ids=PRESETS.keys())

WEIGHTS = [TokenMean(), ResponseMean(), FixedLength(length=7), SequenceSum(), PromptMean(), PromptMean(within="token")]
CREDITS = [
    center_within_group,
    leave_one_out,
    standardize_within_group,
    partial(standardize_within_group, ddof=0, eps=0.0),
]
STAGES = [punish_truncated, mask_truncated, exclude_truncated, None]


@st.composite
def objectives(draw):
    """Random legal compositions."""
    credit, stage = draw(st.sampled_from(CREDITS)), draw(st.sampled_from(STAGES))
    staged = credit if stage is None else partial(stage, credit=credit)
    weights = draw(st.sampled_from(WEIGHTS))
    if draw(st.booleans()):
        objective = clipped("drawn", credit=staged, clip=Clip(high=draw(st.sampled_from([1.2, 1.28]))), weights=weights)
        objective = draw(
            st.sampled_from(
                [objective, bypassing_proximal(objective), with_keep(objective), with_keep(objective, "kept")]
            )
        )
    else:
        objective = score_function("drawn", credit=staged, weights=weights)
    for estimate in draw(st.lists(st.sampled_from([kl_k1, kl_k2, kl_k3, kl_k3_plus]), max_size=1)):
        objective = with_kl(objective, estimate, draw(st.sampled_from(WEIGHTS)))
    return objective


@st.composite
def batches(draw, *, unchanged=False, rewards=None):
    """Up to six rows in up to three groups, with scores of four policies."""
    num_rows = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(0, 4), min_size=num_rows, max_size=num_rows))
    levels = st.sampled_from([0.0, 0.25, 1.0, None]) if rewards is None else rewards
    inputs = credit_inputs(
        draw(st.lists(levels, min_size=num_rows, max_size=num_rows)),
        groups=sorted(draw(st.lists(st.integers(0, 2), min_size=num_rows, max_size=num_rows))),
        lengths=lengths,
        truncated=draw(st.lists(st.integers(0, 1), min_size=num_rows, max_size=num_rows)),
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    base = -3.0 * torch.rand(sum(lengths), generator=generator, dtype=torch.float64)
    moved = {
        name: base - 0.8 * torch.rand(sum(lengths), generator=generator, dtype=torch.float64)
        for name in LOGPROB_STREAMS
    }
    return Batch(inputs=inputs, logprobs=dict.fromkeys(LOGPROB_STREAMS, base) if unchanged else moved)


def whole(objective, batch, **layout):
    return pack(objective, batch, range(len(batch.lengths)), weights=weights_of(objective, batch), **layout)


def check_cuts(objective, batch, cuts, order):
    """One piece of everything against rows cut, shuffled and padded."""
    weights = weights_of(objective, batch)
    loss, gradient = gradient_of(objective, batch, [whole(objective, batch)])
    rows = list(order)
    bounds = [0, *sorted(cuts), len(rows)]
    pieces = [
        pack(objective, batch, rows[start:end], weights=weights, gaps=place % 3, padding=place * 2)
        for place, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    ]
    cut_loss, cut_gradient = gradient_of(objective, batch, pieces)
    assert cut_loss == pytest.approx(loss, abs=1e-9)
    # Which token has which gradient does not depend on the cut at all.
    assert torch.equal(cut_gradient, gradient)


def check_poison(objective, batch):
    packed = whole(objective, batch, filler=0.0, padding=2)
    terms, gradient = run(objective, packed)
    for poison in POISON:
        poisoned_terms, poisoned = run(objective, whole(objective, batch, filler=poison, padding=2))
        assert torch.equal(poisoned, gradient)
        assert torch.equal(poisoned_terms.loss, terms.loss)
        for name, term in terms.terms.items():
            assert torch.equal(poisoned_terms.terms[name], term)
        assert torch.equal(poisoned_terms.flags, terms.flags)
        assert torch.equal(poisoned_terms.ratio, terms.ratio)


def check_unchanged(objective, batch):
    terms, _ = run(objective, whole(objective, batch))
    assert (terms.ratio == 1).all()
    assert (terms.correction == 1).all()
    for name, term in terms.terms.items():
        if name == "kl":
            assert not term.any()


def check_finite_differences(objective, batch):
    """Central differences in every log-probability, away from the kinks of the clip."""
    packed = whole(objective, batch)
    terms, gradient = run(objective, packed)
    mask = packed.streams.action_mask
    step = 1e-6

    def loss_at(place, by):
        current = packed.streams.logprobs["current"].clone()
        current[place] += by
        moved = replace(packed.streams, logprobs={**packed.streams.logprobs, "current": current})
        return float(loss_terms(objective, moved, packed.regularizer_weights).loss)

    bounds = torch.tensor([0.8, 1.2, 1.28], dtype=torch.float64)
    for place in mask.nonzero().flatten().tolist():
        if (terms.ratio[place] - bounds).abs().min() < 1e-4:
            continue
        slope = (loss_at(place, step) - loss_at(place, -step)) / (2 * step)
        assert slope == pytest.approx(float(gradient[place]), abs=2e-8, rel=1e-6)


@presets
@given(batch=batches(), data=st.data())
@settings(max_examples=25)
def test_loss_and_gradient_do_not_depend_on_cut_order_packing_or_padding(objective, batch, data):
    num_rows = len(batch.lengths)
    cuts = data.draw(st.lists(st.integers(0, num_rows), max_size=3))
    check_cuts(objective, batch, cuts, data.draw(st.permutations(range(num_rows))))


@given(objective=objectives(), batch=batches(), data=st.data())
@settings(max_examples=80)
def test_random_compositions_do_not_depend_on_the_cut(objective, batch, data):
    num_rows = len(batch.lengths)
    cuts = data.draw(st.lists(st.integers(0, num_rows), max_size=3))
    check_cuts(objective, batch, cuts, data.draw(st.permutations(range(num_rows))))


@presets
@given(batch=batches())
@settings(max_examples=15)
def test_what_is_under_a_mask_changes_nothing(objective, batch):
    check_poison(objective, batch)


@given(objective=objectives(), batch=batches())
@settings(max_examples=60)
def test_random_compositions_are_safe_from_poison(objective, batch):
    check_poison(objective, batch)


@presets
@given(batch=batches(unchanged=True))
@settings(max_examples=15)
def test_an_unchanged_policy_has_ratio_one_and_no_kl(objective, batch):
    check_unchanged(objective, batch)


@given(objective=objectives(), batch=batches(unchanged=True))
@settings(max_examples=60)
def test_an_unchanged_policy_has_ratio_one_under_random_compositions(objective, batch):
    check_unchanged(objective, batch)


@pytest.mark.parametrize(
    "objective",
    [objective for name, objective in PRESETS.items() if name not in ("supervised", "reinforce", "dapo")],
    ids=[name for name in PRESETS if name not in ("supervised", "reinforce", "dapo")],
)
@given(batch=batches(rewards=st.just(0.25)))
@settings(max_examples=15)
def test_equal_rewards_give_no_policy_gradient(objective, batch):
    terms, _ = run(objective, whole(objective, batch))
    assert not terms.terms[objective.component].any()
    on_actions = terms.flags[whole(objective, batch).streams.action_mask]
    assert has_flag(on_actions, ZERO_ADVANTAGE).all()


@presets
@given(batch=batches())
@settings(max_examples=10)
def test_gradients_are_those_of_finite_differences(objective, batch):
    # k3+ has the value of k3 and the gradient of k2 on purpose; it is not among the presets.
    check_finite_differences(objective, batch)


@given(batch=batches(), estimate=st.sampled_from([kl_k1, kl_k2, kl_k3]))
@settings(max_examples=15)
def test_gradients_of_kl_terms_are_those_of_finite_differences(batch, estimate):
    check_finite_differences(with_kl(grpo(), estimate), batch)


@presets
@given(batch=batches())
@settings(max_examples=10)
def test_float32_scores_give_the_loss_of_float64(objective, batch):
    # Near a bound of the clip or of the test's keep rule the two may fall on different sides.
    exact, slopes = run(objective, whole(objective, batch))
    bounds = torch.tensor([0.5, 0.8, 1.2, 1.28, 1.5], dtype=torch.float64)
    ratios = torch.cat([exact.ratio, exact.correction, torch.full((1,), 9.0)])
    if (ratios[:, None] - bounds).abs().min() < 1e-4:
        return
    single = replace(batch, logprobs={name: values.float() for name, values in batch.logprobs.items()})
    found, gradient = run(objective, whole(objective, single))
    assert found.loss.dtype == torch.float64
    assert float(found.loss.detach()) == pytest.approx(float(exact.loss.detach()), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient.double(), slopes, rtol=1e-5, atol=1e-5)


@presets
def test_a_piece_without_trained_tokens_is_a_zero_that_can_go_backward(objective):
    batch = Batch(
        inputs=credit_inputs([1.0, 0.0], lengths=[0, 0]),
        logprobs=dict.fromkeys(LOGPROB_STREAMS, torch.zeros(0, dtype=torch.float64)),
    )
    terms, gradient = run(objective, whole(objective, batch, padding=3))
    assert float(terms.loss.detach()) == 0.0
    assert not gradient.any()


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
