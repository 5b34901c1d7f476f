"""Numbers and words that no method has are refused where a part is made or called, never taken for another one."""

from functools import partial
from math import inf, nan
from typing import Any

import pytest
import torch

from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive
from rollwright.algorithms.credit.pass_at_k import pass_at_k_credit
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.whitening import whiten_over_batch
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.layouts import PaddedBatch
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds
from rollwright.algorithms.trial import trial_inputs

INPUTS = trial_inputs(4)

pass_at_k: Any = pass_at_k_credit
adaptive: Any = LengthAdaptive
bounds: Any = SignedBounds
truncated: Any = TruncatedRatio
"""Called without a type checker."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (partial(standardize_within_group, INPUTS, eps=nan), "eps nan"),
        (partial(whiten_over_batch, INPUTS, eps=nan), "eps is nan"),
        (partial(anchor_state_advantage, INPUTS, eps=nan), "eps nan"),
        (partial(anchor_state_advantage, INPUTS, step_weight=nan), "step_weight is nan"),
        (partial(anchor_state_advantage, INPUTS, step_weight=-1.0), "step_weight is -1.0"),
        (partial(return_to_go, INPUTS, baseline=nan), "the baseline is nan"),
        (partial(return_to_go, INPUTS, baseline=inf), "the baseline is inf"),
        (partial(pass_at_k, INPUTS, k=2.5), "k is 2.5; pass@k as an objective needs a whole number"),
        (partial(pass_at_k, INPUTS, k=nan), "k is nan; pass@k as an objective needs a whole number"),
        (partial(RunningBaseline, initial=nan), "begins at nan"),
        (partial(LengthAdaptive, alpha=nan), "alpha is nan"),
        (partial(adaptive, alpha=1.0, over="rows"), "over is 'rows'; it is 'row' or 'episode'"),
        (partial(bounds, outside="drop"), "outside the signed bounds is 'drop'; it is 'mask' or 'clip'"),
        (partial(truncated, level="row"), "the level of a truncated ratio is 'row'; it is 'token' or 'sequence'"),
        (partial(PrefixClip, power=nan), "power = nan"),
    ],
)
def test_what_no_method_has_is_refused(make, says):
    with pytest.raises(ObjectiveError, match=says):
        make()


@pytest.mark.parametrize("state", [{}, {"coefficient": nan}, {"coefficient": inf}, {"coefficient": -0.1}, {"c": 0.1}])
def test_an_adaptive_kl_goes_on_from_its_own_state_alone(state):
    controller = AdaptiveKl(initial=0.1, target=0.01, num_rows=8, horizon=100)
    with pytest.raises(ObjectiveError, match="an adaptive KL was to go on from"):
        controller.restore(state)
    assert controller.value() == 0.1


@pytest.mark.parametrize(
    "state", [{}, {"c": 0.1}, {"c": nan, "is_active": 1.0}, {"c": 2.0, "is_active": 1.0}, {"c": 0.1, "is_active": nan}]
)
def test_an_entropy_controller_goes_on_from_its_own_state_alone(state):
    controller = MagicEntropy(target=0.2, cap=1.0)
    with pytest.raises(ObjectiveError, match="the entropy controller was to go on from"):
        controller.restore(state)
    assert controller.state() == {"c": 0.0, "is_active": 0.0}


def test_an_unbounded_entropy_controller_goes_on_from_any_finite_state():
    controller = MagicEntropy(target=0.2, floor=None)
    controller.restore({"c": -3.0, "is_active": 1.0})
    assert controller.value() == -3.0
    with pytest.raises(ObjectiveError, match="finite"):
        controller.restore({"c": -inf, "is_active": 1.0})


def test_groups_of_a_padded_batch_are_integers():
    mask = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ObjectiveError, match="groups are whole numbers"):
        PaddedBatch(action_mask=mask, rewards=torch.zeros(2), group_index=torch.tensor([0.2, 0.7]))
