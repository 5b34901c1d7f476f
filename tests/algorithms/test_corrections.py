"""Corrections of staleness and engine mismatch: truncated, masked, by row; and what they are to a loss."""

import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import (
    Counting,
    ObjectiveError,
    TokenMean,
    clean_streams,
    grpo,
    keep_all,
    kept_tokens,
    loss_terms,
    staleness_ratio,
    supervised,
)
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection, RowStatistic
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.flags import SEQUENCE_MASK, TOKEN_MASK, has_flag
from tests.algorithms.pieces import credit_inputs
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture

BOTH = frozenset({"behavior", "proximal"})


def stale(rows, *, mask=None, advantages=None, dtype=torch.float64):
    """Rows whose proximal policy lies these nats above the behavior policy."""
    flat = [value for row in rows for value in row]
    raw = streams(
        [1.0] * len(flat) if advantages is None else advantages,
        proximal=flat,
        behavior=[0.0] * len(flat),
        mask=None if mask is None else [bool(value) for row in mask for value in row],
    )
    scores = {name: stream.to(dtype) for name, stream in raw.logprobs.items()}
    offsets = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    return clean_streams(replace(raw, row_offsets=offsets, logprobs=scores), BOTH).streams


def logs(*ratios):
    return [math.log(ratio) for ratio in ratios]


def contributions(keep, correction, ratios, *, counting: Counting = "structural", mask=None):
    """What each token adds to the gradient of the mean loss, times the number of tokens that count."""
    objective = replace(
        supervised(), keep=keep, correction=correction, weights=TokenMean(counting=counting), needs=BOTH
    )
    current = torch.full((len(ratios),), -1.0, dtype=torch.float64, requires_grad=True)
    raw = streams([1.0] * len(ratios), behavior=[0.0] * len(ratios), proximal=logs(*ratios), mask=mask)
    piece = replace(raw, logprobs={**raw.logprobs, "current": current}, token_weights=torch.ones(len(ratios)))
    (gradient,) = torch.autograd.grad(-loss_terms(objective, piece, {}).loss, current)
    return gradient.tolist()


# ---------------------------------------------------------------------------------------------------------- truncation


@pytest.mark.parametrize("fixture_id", ["M39.a", "M39.b"])
def test_truncated_weights_match_the_worked_numbers(fixture_id):
    fixture = method_fixture(fixture_id)
    piece = streams([1.0] * 3, proximal=fixture.input["train"], behavior=fixture.input["infer"])
    found = TruncatedRatio(cap=fixture.input["C"], level=fixture.input["level"])(piece)
    assert found.tolist() == pytest.approx(fixture.expect["w"], abs=fixture.tol)


def test_a_ratio_of_six_under_a_cap_of_five_counts_five():
    weights = TruncatedRatio(cap=5.0)
    assert contributions(keep_all, weights, [6.0, 5.0, 0.1]) == pytest.approx([5.0, 5.0, 0.1])
    # A ratio on the cap is not held down.
    assert weights.truncated(stale([logs(6.0, 5.0, 0.1)])).tolist() == [True, False, False]


def test_sequence_weights_are_products_of_their_own_row():
    piece = stale([logs(2.0, 9.0, 1.5), logs(0.5)], mask=[[1, 0, 1], [1]])
    found = TruncatedRatio(cap=2.5, level="sequence")(piece)
    assert found.tolist() == pytest.approx([2.5, 0.0, 2.5, 0.5])
    assert TruncatedRatio(cap=2.5, level="sequence").truncated(piece).tolist() == [True, False, True, False]


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_equal_policies_are_not_corrected(level):
    for dtype in (torch.float32, torch.float64):
        assert TruncatedRatio(level=level)(stale([[0.0, 0.0], [0.0]], dtype=dtype)).tolist() == [1.0] * 3


def test_in_bypass_mode_the_current_policy_is_corrected_and_has_no_gradient():
    current = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    piece = streams([1.0], behavior=[0.0], current=current)
    weight = TruncatedRatio(of="current")(piece)
    assert weight.tolist() == pytest.approx([math.exp(0.5)]) and not weight.requires_grad


@pytest.mark.parametrize("cap", [0.0, -1.0, math.inf, math.nan])
def test_a_cap_that_is_none_is_refused(cap):
    with pytest.raises(ObjectiveError, match="cap of a truncated ratio"):
        TruncatedRatio(cap=cap)


# -------------------------------------------------------------------------------------------------------------- masking


@pytest.mark.parametrize("fixture_id", ["M40.a", "M40.b", "M40.c"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masked_ratios_match_the_worked_numbers_with_bounds_inside(fixture_id, dtype):
    fixture = method_fixture(fixture_id)
    piece = stale([logs(*fixture.input["rho"])], dtype=dtype)
    kept = MaskedRatio(low=fixture.input["lo"], high=fixture.input["hi"])(piece)
    found = torch.where(kept.keep, staleness_ratio(piece), 0.0)
    assert found.tolist() == pytest.approx(fixture.expect["w"], rel=1e-6)
    assert torch.equal(has_flag(kept.flags, TOKEN_MASK), ~kept.keep)


def test_a_ratio_above_its_band_counts_nothing_and_never_the_bound():
    found = contributions(MaskedRatio(low=0.5, high=5.0), staleness_ratio, [6.0, 5.0, 1.0])
    assert found == pytest.approx([0.0, 5.0, 1.0])


@pytest.mark.row("S175")
def test_the_band_of_cascade_two_meets_the_mask_of_valid_tokens():
    ratios = [0.4, 0.5, 1.0, 2.0, 2.1, 1.0]
    mask = [True, True, True, True, True, False]
    found = contributions(MaskedRatio(low=0.5, high=2.0), staleness_ratio, ratios, mask=mask)
    assert found == pytest.approx([0.0, 0.5, 1.0, 2.0, 0.0, 0.0])


@pytest.mark.row("S176")
def test_icepop_has_a_cutoff_on_either_side():
    cutoff = 2.0
    icepop = MaskedRatio(low=1.0 / cutoff, high=cutoff)
    found = contributions(icepop, staleness_ratio, [0.49, 0.5, 1.0, 2.0, 2.01])
    assert found == pytest.approx([0.0, 0.5, 1.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(0.0, 1.0, [True, False]), (1.0, math.inf, [False, True]), (0.0, math.inf, [True, True])],
)
def test_a_bound_may_be_off(low, high, found):
    piece = stale([[-9.0, 9.0]])
    assert MaskedRatio(low=low, high=high)(piece).keep.tolist() == found


@pytest.mark.parametrize(("low", "high"), [(1.5, 2.0), (0.5, 0.9), (-1.0, 2.0), (math.nan, 2.0)])
def test_a_band_without_one_is_refused(low, high):
    with pytest.raises(ObjectiveError, match="hold 1"):
        MaskedRatio(low=low, high=high)


@pytest.mark.case("F84")
def test_rejected_tokens_leave_numerator_and_denominator_and_weights_are_capped():
    given_case = case("F84")
    low, high = given_case.input["keep_interval"]
    log_ratio, losses = given_case.input["log_ratio_train_minus_rollout"], given_case.input["per_token_loss"]
    reject = replace(
        supervised(),
        keep=MaskedRatio(low=low, high=high),
        correction=staleness_ratio,
        weights=TokenMean(counting="kept"),
        needs=BOTH,
    )
    truncate = replace(supervised(), correction=TruncatedRatio(cap=given_case.input["cap"]), needs=BOTH)

    def loss(objective, ratios):
        current = -torch.tensor(losses, dtype=torch.float64).requires_grad_()
        piece = streams([1.0] * len(losses), current=current, proximal=ratios, behavior=[0.0] * len(losses))
        kept = kept_tokens(objective, piece).keep
        inputs = credit_inputs([1.0], lengths=[len(losses)])
        weights = objective.weights(inputs, kept if objective.weights.counting == "kept" else None)
        found = loss_terms(objective, replace(piece, token_weights=weights), {})
        (gradient,) = torch.autograd.grad(found.loss, current)
        return float(found.loss.detach()), kept.tolist(), gradient

    rejected, kept, _ = loss(reject, log_ratio)
    assert kept == given_case.expect["kept"]
    assert rejected == pytest.approx(given_case.expect["loss_reject_mode"])
    assert rejected != pytest.approx(given_case.expect["wrong_zero_weight_full_denominator"])
    assert loss(truncate, log_ratio)[0] == pytest.approx(given_case.expect["loss_truncate_mode"])
    extreme = given_case.input["extreme"]["log_ratio"]
    value, kept, gradient = loss(reject, [*log_ratio[:4], extreme])
    assert math.isfinite(value) and not kept[4] and float(gradient[4]) == 0.0
    value, _, gradient = loss(truncate, [*log_ratio[:4], extreme])
    assert math.isfinite(value) and bool(gradient.isfinite().all())


# ----------------------------------------------------------------------------------------------------------- whole rows


def by_row(keep, rows):
    return [part.tolist() for part in keep.split([len(row) for row in rows])]


def test_the_composite_mask_matches_the_worked_numbers():
    fixture = method_fixture("M41.a")
    rows = fixture.input["log_ratio"]
    test = CompositeMask(
        token=tuple(fixture.input["token"]), row_mean=tuple(fixture.input["geo"]), row_max=fixture.input["seq_any_hi"]
    )
    assert by_row(test(stale(rows)).keep, rows) == fixture.expect["keep"]


def test_a_composite_mask_says_whether_the_token_or_its_row_went():
    rows = [logs(1.0, 9.0), logs(200.0, 1.0, 0.01), logs(0.05, 0.05), logs(1.0)]
    kept = CompositeMask(row_min=0.001)(stale(rows))
    assert by_row(kept.keep, rows) == [[True, False], [False] * 3, [False] * 2, [True]]
    assert by_row(has_flag(kept.flags, TOKEN_MASK), rows) == [[False, True], [True, False, True], [True] * 2, [False]]
    assert by_row(has_flag(kept.flags, SEQUENCE_MASK), rows) == [[False] * 2, [True] * 3, [True] * 2, [False]]


def test_row_tests_look_at_action_tokens_alone_and_leave_empty_rows():
    rows = [logs(1.0, 500.0), logs(2.0)]
    assert CompositeMask()(stale(rows, mask=[[1, 0], [0]])).keep.tolist() == [True, False, False]
    flags = CompositeMask()(stale(rows, mask=[[1, 0], [0]])).flags
    assert not flags.any()


def test_a_composite_mask_refuses_bands_without_one():
    with pytest.raises(ObjectiveError, match="row_mean of a composite mask"):
        CompositeMask(row_mean=(2.0, 10.0))
    with pytest.raises(ObjectiveError, match="row_min and row_max"):
        CompositeMask(row_max=0.5)


def test_rejection_by_divergence_matches_the_worked_numbers():
    fixture = method_fixture("M42.a")
    rows = fixture.input["log_ratio"]
    low, high = fixture.input["geo"]
    mean = RowRejection(statistic="geometric_mean", low=low, high=high)
    k3 = RowRejection(statistic="k3_mean", high=fixture.input["k3_max"])
    for test, values, keeps in ((mean, "geo_ratio", "geo_keep"), (k3, "k3", "k3_keep")):
        assert test.of_rows(stale(rows)).tolist() == pytest.approx(fixture.expect[values], abs=fixture.tol)
        assert [row[0] for row in by_row(test(stale(rows)).keep, rows)] == fixture.expect[keeps]


def test_every_statistic_of_a_row_by_hand():
    rows = [logs(2.0, 0.5, 4.0), logs(1.0)]
    nats = [math.log(2.0), math.log(0.5), math.log(4.0)]
    due: dict[RowStatistic, float] = {
        "geometric_mean": 4.0 ** (1 / 3),
        "k2_mean": sum(nat**2 / 2 for nat in nats) / 3,
        "k3_mean": sum(math.exp(nat) - 1 - nat for nat in nats) / 3,
        "k2_max": math.log(4.0) ** 2 / 2,
        "minimum": 0.5,
    }
    for statistic, value in due.items():
        test = RowRejection(statistic=statistic, low=0.0, high=9.0)
        equal = 1.0 if statistic in ("geometric_mean", "minimum") else 0.0
        assert test.of_rows(stale(rows)).tolist() == pytest.approx([value, equal])
        nothing = stale([[0.3]], mask=[[0]])
        assert test.of_rows(nothing).tolist() == [equal]


def test_a_veto_drops_the_row_of_one_bad_token():
    rows = [logs(1.0, 1e-5), logs(1.0, 0.9)]
    kept = RowRejection(statistic="minimum", low=1e-4)(stale(rows))
    assert by_row(kept.keep, rows) == [[False] * 2, [True] * 2]
    assert by_row(has_flag(kept.flags, SEQUENCE_MASK), rows) == [[True] * 2, [False] * 2]


def test_reciprocal_bounds_give_the_rejection_of_verl():
    # verl tests -log ρ: its bounds [0.9, 1.2] are on 1/ρ.
    rows = [logs(0.8), logs(0.84), logs(1.0), logs(1.1), logs(1.15)]
    theirs = [0.9 <= 1 / ratio <= 1.2 for ratio in (0.8, 0.84, 1.0, 1.1, 1.15)]
    ours = RowRejection(statistic="geometric_mean", low=1 / 1.2, high=1 / 0.9)
    assert ours(stale(rows)).keep.tolist() == theirs
    assert RowRejection(statistic="geometric_mean", low=0.9, high=1.2)(stale(rows)).keep.tolist() != theirs


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ({}, "neither low nor high"),
        ({"low": 1.1}, "drops rows of equal policies"),
        ({"high": math.nan}, "drops rows of equal policies"),
    ],
)
def test_a_rejection_that_means_nothing_is_refused(bounds, sentence):
    with pytest.raises(ObjectiveError, match=sentence):
        RowRejection(statistic="geometric_mean", **bounds)


def test_the_off_policy_mask_matches_the_worked_numbers():
    fixture = method_fixture("M43.a")
    behavior, current = fixture.input["beh"], fixture.input["cur"]
    rows = [[c - b for b, c in zip(*pair, strict=True)] for pair in zip(behavior, current, strict=True)]
    advantages = [a for a, row in zip(fixture.input["A"], rows, strict=True) for _ in row]
    test = OffPolicySequenceMask(delta=fixture.input["delta"])
    piece = stale(rows, advantages=advantages)
    assert test.mean_distance(piece).tolist() == pytest.approx(fixture.expect["mean_kl"])
    kept = test(piece)
    assert [row[0] for row in by_row(kept.keep, rows)] == fixture.expect["keep"]
    assert torch.equal(has_flag(kept.flags, SEQUENCE_MASK), ~kept.keep)


def test_the_off_policy_mask_takes_tokens_by_their_own_advantage_and_a_distance_of_delta_stays():
    piece = stale([[-2.0, -2.0], [-1.0]], advantages=[1.0, -1.0, -1.0])
    assert OffPolicySequenceMask(delta=1.0)(piece).keep.tolist() == [True, False, True]


def test_the_off_policy_mask_may_follow_the_current_policy():
    piece = streams([-1.0], behavior=[0.0], current=[-3.0])
    assert OffPolicySequenceMask(delta=1.0, of="current")(piece).keep.tolist() == [False]


def test_delta_has_no_default():
    with pytest.raises(ObjectiveError, match="DeepSeek-V3.2"):
        OffPolicySequenceMask()
    with pytest.raises(ObjectiveError, match="at least 0"):
        OffPolicySequenceMask(delta=-0.1)


# ---------------------------------------------------------------------------------------------------------- all of them

KEEPS = {
    "masked": MaskedRatio(low=0.5, high=2.0),
    "composite": CompositeMask(),
    "rejected": RowRejection(statistic="k3_mean", high=0.1),
    "veto": RowRejection(statistic="minimum", low=0.1),
    "off policy": OffPolicySequenceMask(delta=0.1),
}


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS.keys())
def test_a_keep_is_known_before_the_update_and_blind_to_what_is_masked(keep):
    objective = replace(grpo(), keep=keep, weights=TokenMean(counting="kept"), needs=BOTH)
    clean = [0.1, 0.0, 3.0]
    found = kept_tokens(objective, streams([-1.0] * 3, mask=[1, 0, 1], proximal=clean, behavior=[0.0] * 3))
    assert not found.keep[1] and not found.flags[1]
    for poison in (math.nan, math.inf, -math.inf, 1e30):
        scores = {"proximal": [0.1, poison, 3.0], "behavior": [0.0, poison, 0.0]}
        poisoned = streams([-1.0, poison, -1.0], mask=[1, 0, 1], **scores)
        again = kept_tokens(objective, poisoned)
        assert torch.equal(again.keep, found.keep) and torch.equal(again.flags, found.flags)


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS.keys())
def test_a_keep_of_the_current_policy_cannot_be_counted(keep):
    objective = replace(grpo(), keep=replace(keep, of="current"), needs=BOTH)
    with pytest.raises(ObjectiveError, match="current"):
        kept_tokens(objective, streams([-1.0], proximal=[0.0], behavior=[0.0]))


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS.keys())
def test_equal_policies_keep_everything(keep):
    piece = stale([[0.0, 0.0], [0.0]], advantages=[-1.0] * 3, dtype=torch.float32)
    assert keep(piece).keep.all() and not keep(piece).flags.any()


def test_the_decoupled_correction_is_one_where_policies_match():
    fixture = method_fixture("M44.b")
    piece = streams([1.0] * 2, behavior=fixture.input["beh"], proximal=fixture.input["prox"])
    assert staleness_ratio(piece).tolist() == fixture.expect["c"]
