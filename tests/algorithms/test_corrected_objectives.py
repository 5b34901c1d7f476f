"""The battery of every objective, over the ratios and corrections of this family."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import ResponseMean, TokenMean, grpo, score_function, staleness_ratio
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import EpisodeMean
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from tests.algorithms.battery import check_cuts, check_finite_differences, check_poison, check_unchanged
from tests.algorithms.drawn_batches import batches

BOTH = frozenset({"behavior", "proximal"})
KEPT = TokenMean(counting="kept")
WHOLE_ROWS = {
    "product": replace(grpo(), ratio=sequence_product_ratio),
    "mean": replace(grpo(), ratio=sequence_mean_ratio, weights=ResponseMean()),
    "mean, bypass": replace(grpo(), ratio=partial(sequence_mean_ratio, over="behavior"), needs=frozenset({"behavior"})),
}
OWN_TOKENS = {
    "token form": replace(grpo(), ratio=sequence_token_ratio),
    "prefixes": replace(grpo(), ratio=prefix_ratio),
    "means of prefixes": replace(grpo(), ratio=prefix_mean_ratio),
    "current over behavior": replace(
        score_function("importance", credit=center_within_group, weights=EpisodeMean()),
        correction=TruncatedRatio(cap=1.5, of="current"),
        needs=frozenset({"behavior"}),
    ),
}
CORRECTIONS = {
    "truncated": replace(grpo(), correction=TruncatedRatio(cap=1.5), needs=BOTH),
    "truncated rows": replace(grpo(), correction=TruncatedRatio(cap=1.5, level="sequence"), needs=BOTH),
    "masked": replace(grpo(), keep=MaskedRatio(low=0.8, high=1.5), correction=staleness_ratio, needs=BOTH),
    "composite": replace(grpo(), keep=CompositeMask(token=(0.7, 1.5), row_mean=(0.8, 1.2)), weights=KEPT, needs=BOTH),
    "rejected": replace(grpo(), keep=RowRejection(statistic="k3_mean", high=0.05), weights=KEPT, needs=BOTH),
    "off policy": replace(grpo(), keep=OffPolicySequenceMask(delta=0.1), needs=BOTH),
    "off policy, current": replace(grpo(), keep=OffPolicySequenceMask(delta=0.1, of="current"), needs=BOTH),
    "balanced": replace(grpo(), weights=SourceBalance(base=ResponseMean(), targets={0: 0.7, 1: 0.3})),
}
ALL = {**WHOLE_ROWS, **OWN_TOKENS, **CORRECTIONS}
every = pytest.mark.parametrize("objective", ALL.values(), ids=ALL.keys())


@every
@given(batch=batches(), data=st.data())
@settings(max_examples=15)
def test_how_an_update_is_cut_changes_nothing(objective, batch, data):
    cuts = data.draw(st.lists(st.integers(0, len(batch.lengths)), max_size=3))
    check_cuts(objective, batch, cuts, data.draw(st.permutations(range(len(batch.lengths)))))


@every
@given(batch=batches())
@settings(max_examples=10)
def test_what_is_under_a_mask_changes_nothing(objective, batch):
    check_poison(objective, batch)


@every
@given(batch=batches(unchanged=True))
@settings(max_examples=10)
def test_an_unchanged_policy_has_ratio_and_correction_one(objective, batch):
    check_unchanged(objective, batch)


# The token form and prefixes follow the token's own score, and a weight by current is detached, on purpose.
@pytest.mark.parametrize(
    "objective", [*WHOLE_ROWS.values(), *CORRECTIONS.values()], ids=[*WHOLE_ROWS.keys(), *CORRECTIONS.keys()]
)
@given(batch=batches())
@settings(max_examples=10)
def test_gradients_are_those_of_finite_differences(objective, batch):
    check_finite_differences(objective, batch)
