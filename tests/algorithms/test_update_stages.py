"""Streams that only a whole update can give; weights whose mean over the update is 1."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import (
    ObjectiveError,
    TokenMean,
    effective_sample_size,
    grpo,
    loss_terms,
    staleness_ratio,
)
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.self_normalized import SelfNormalized, self_normalizing
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.objective import UpdateStage
from rollwright.algorithms.stages import made_by, make_stages
from tests.algorithms.battery import check_cuts, check_finite_differences, check_poison
from tests.algorithms.drawn_batches import batches
from tests.algorithms.test_corrections import BOTH, logs, stale
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import method_fixture

CORRECTED = replace(grpo(), correction=TruncatedRatio(cap=2.0), needs=BOTH)
MASKED = replace(CORRECTED, keep=MaskedRatio(low=0.5, high=2.0), correction=staleness_ratio)
NORMALIZED = {
    "token": self_normalizing(CORRECTED),
    "row": self_normalizing(CORRECTED, over="row"),
    "masked": self_normalizing(MASKED),
    "masked, kept": self_normalizing(replace(MASKED, weights=TokenMean(counting="kept"))),
}
normalized = pytest.mark.parametrize("objective", NORMALIZED.values(), ids=NORMALIZED.keys())


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def weights_of(objective, piece):
    made = make_stages(objective, piece, generator())
    return objective.correction(replace(piece, made=made))


def test_self_normalised_weights_match_the_worked_numbers():
    fixture = method_fixture("M46.a")
    piece = stale([logs(*fixture.input["w"])], mask=[fixture.input["mask"]])
    assert weights_of(self_normalizing(MASKED), piece).tolist() == pytest.approx(fixture.expect["w_norm"])
    ratios = staleness_ratio(piece)
    assert effective_sample_size(ratios, piece.action_mask) == pytest.approx(fixture.expect["ess"])


def test_the_mean_is_over_tokens_or_over_means_of_rows():
    piece = stale([logs(2.0, 1.0, 1.0), logs(0.5), [0.0]], mask=[[1, 1, 1], [1], [0]])
    plain = replace(CORRECTED, correction=staleness_ratio)
    mean = (2 + 1 + 1 + 0.5) / 4
    found = weights_of(self_normalizing(plain), piece).tolist()
    assert found == pytest.approx([2 / mean, 1 / mean, 1 / mean, 0.5 / mean, 0.0])
    mean = (4 / 3 + 0.5) / 2  # the row without action tokens has no mean
    found = weights_of(self_normalizing(plain, over="row"), piece).tolist()
    assert found == pytest.approx([2 / mean, 1 / mean, 1 / mean, 0.5 / mean, 0.0])


def test_a_token_that_is_dropped_counts_nothing_in_the_mean():
    piece = stale([logs(1.5, 6.0)])
    found = weights_of(self_normalizing(MASKED), piece).tolist()
    assert found[0] == pytest.approx(1.5 / (1.5 / 2))


def test_the_cap_below_a_mean_is_still_seen():
    piece = stale([logs(6.0, 1.0)])
    assert SelfNormalized(correction=CORRECTED.correction).truncated(piece).tolist() == [True, False]
    plain = SelfNormalized(correction=staleness_ratio)
    assert plain.truncated(piece).tolist() == [False, False]


def test_weights_that_are_all_but_nothing_are_left_as_they_are():
    piece = stale([[-19.0, -19.0]])
    plain = replace(CORRECTED, correction=staleness_ratio)
    assert weights_of(self_normalizing(plain), piece).tolist() == staleness_ratio(piece).tolist()


def test_equal_policies_have_weights_of_exactly_one():
    for name in ("token", "row"):
        piece = stale([[0.0] * 3, [0.0]], dtype=torch.float32)
        assert weights_of(NORMALIZED[name], piece).tolist() == [1.0] * 4


@normalized
@given(batch=batches(), data=st.data())
@settings(max_examples=25)
def test_how_an_update_is_cut_changes_nothing(objective, batch, data):
    num_rows = len(batch.lengths)
    cuts = data.draw(st.lists(st.integers(0, num_rows), max_size=3))
    check_cuts(objective, batch, cuts, data.draw(st.permutations(range(num_rows))))


@normalized
@given(batch=batches())
@settings(max_examples=15)
def test_what_is_under_a_mask_changes_nothing(objective, batch):
    check_poison(objective, batch)


@normalized
@given(batch=batches())
@settings(max_examples=10)
def test_gradients_are_those_of_finite_differences(objective, batch):
    check_finite_differences(objective, batch)


def test_without_its_stage_a_normalised_correction_is_refused():
    objective = replace(NORMALIZED["token"], stages=())
    piece = streams([1.0], behavior=[0.0], proximal=[0.0], current=[0.0])
    with pytest.raises(ObjectiveError, match="'self_normalized' makes, but the piece has"):
        loss_terms(objective, piece, {})


def test_normalising_twice_is_refused():
    with pytest.raises(ObjectiveError, match="apply it once"):
        self_normalizing(NORMALIZED["token"])


def test_a_stage_sees_clean_streams_and_its_own_is_zero_under_the_mask():
    seen = []

    def make(piece, draws):
        seen.append(piece)
        return torch.rand(len(piece.action_mask), generator=draws, dtype=torch.float64)

    objective = replace(CORRECTED, stages=(UpdateStage(name="drawn", make=make),))
    nan = float("nan")
    piece = streams([1.0, nan, 1.0], mask=[1, 0, 1], behavior=[0.0, nan, nan], proximal=[0.0, nan, 0.0])
    made = make_stages(objective, piece, generator())["drawn"]
    assert made[1:].tolist() == [0.0, 0.0] and made[0] > 0
    assert seen[0].action_mask.tolist() == [True, False, False] and "current" not in seen[0].logprobs
    assert torch.equal(make_stages(objective, piece, generator())["drawn"], made)
    assert not torch.equal(make_stages(objective, piece, generator(2))["drawn"], made)


def test_a_stream_of_a_stage_keeps_its_type():
    for dtype in (torch.bool, torch.int64, torch.float32):
        stage = UpdateStage(
            name="one", make=lambda piece, _, kind=dtype: torch.ones_like(piece.action_mask, dtype=kind)
        )
        made = make_stages(
            replace(CORRECTED, stages=(stage,)), streams([1.0], behavior=[0.0], proximal=[0.0]), generator()
        )
        assert made["one"].dtype == dtype
        assert made_by(replace(streams([1.0]), made=made), "one") is made["one"]


def test_stages_of_one_name_or_a_wrong_shape_are_refused():
    stage = UpdateStage(name="one", make=lambda piece, _: torch.zeros(7))
    piece = streams([1.0], behavior=[0.0], proximal=[0.0])
    with pytest.raises(ObjectiveError, match="each name may stand once"):
        make_stages(replace(CORRECTED, stages=(stage, stage)), piece, generator())
    with pytest.raises(ObjectiveError, match=r"gave shape \(7,\) for 1 tokens"):
        make_stages(replace(CORRECTED, stages=(stage,)), piece, generator())


def test_no_stages_make_nothing():
    assert make_stages(CORRECTED, streams([1.0]), generator()) == {}
