"""Weights that arrive in mid-rollout (M110)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.staleness.weight_swap import swap_effects

swaps = st.sampled_from(["drain", "continue", "recompute"])


@given(swaps, st.integers(0, 50), st.integers(0, 50), st.integers(0, 60))
def test_only_continuing_leaves_a_cache_of_other_weights_and_only_recomputing_reads_again(swap, prefix, generated, at):
    effects = swap_effects(swap, prefix=prefix, generated=generated, at=at)
    is_hit = swap != "drain" and at < generated
    assert effects.num_versions == (2 if is_hit and at > 0 else 1)
    assert effects.prefilled_again == (prefix + at if is_hit and swap == "recompute" else 0)
    assert effects.cache_matches_weights == (not is_hit or swap == "recompute" or prefix + at == 0)


def test_weights_that_come_before_the_first_token_still_cost_the_prefix():
    effects = swap_effects("recompute", prefix=500, generated=300, at=0)
    assert (effects.num_versions, effects.prefilled_again) == (1, 500)


def test_weights_that_come_after_the_last_token_do_nothing():
    for swap in ("drain", "continue", "recompute"):
        effects = swap_effects(swap, prefix=500, generated=300, at=300)
        assert (effects.num_versions, effects.prefilled_again, effects.cache_matches_weights) == (1, 0, True)
    with pytest.raises(ObjectiveError, match="counts of tokens"):
        swap_effects("drain", prefix=-1, generated=0, at=0)
