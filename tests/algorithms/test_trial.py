"""The tiny batch that objectives are tried on: every credit of the library runs on it."""

import inspect
from functools import partial

import pytest
import torch

from rollwright.algorithms import center_within_group, leave_one_out
from rollwright.algorithms.catalogue import PARTS
from rollwright.algorithms.credit.distillation import multi_teacher_gap
from rollwright.algorithms.denominators.plain import FixedLength, PromptMean, ResponseMean, SequenceSum, TokenMean
from rollwright.algorithms.example_rows import EXAMPLE_LENGTHS, example_masses
from rollwright.algorithms.regularizers.quantile_penalty import QuantileGate
from rollwright.algorithms.rewards.reward_parts import normalize_parts, weigh_parts
from rollwright.algorithms.trial import inputs_for, trial_inputs

CHOSEN = {
    "credit": leave_one_out,
    "coefficient": 0.1,
    "max_tokens": 4,
    "buffer_tokens": 2,
    "k": 2,
    "alpha": 0.1,
    "eta": 0.1,
    "kappa": 2.0,
    "scale": 1.0,
    "bonus": 0.1,
    "max_scale": 2.0,
    "alpha_max": 2.0,
    "beta_min": 0.5,
    "multiplier": 1.2,
    "threshold": 1.0,
    "cost": 0.02,
    "cap": 0.1,
    "discount": 0.9,
    "decay": 0.9,
    "policy_lambda": 0.9,
    "trajectory": 1.0,
    "role": 0.5,
    "turn": 0.5,
    "roles": (7,),
    "teachers": {4: "teacher/math", 9: "teacher/code"},
    "gate": QuantileGate(penalty=0.5, percentile=50.0, slack=0.1, saturation=1.0, power=2.0, min_pass_rate=0.1),
}
WEIGHTS = {"multi_teacher_gap": {4: 1.0, 9: 0.5}, "weigh_parts": {"tests": 1.0}, "normalize_parts": {"tests": 1.0}}
CREDITS = [
    part.make
    for part in PARTS
    if part.role == "credit" and (inspect.isfunction(part.make) or hasattr(part.make, "advance"))
]


def with_numbers(make):
    """The credit with a number for each argument that has none."""
    if not inspect.isfunction(make):
        return make()
    parameters = inspect.signature(make).parameters.values()
    open_ones = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default in (p.empty, None)]
    chosen = {name: CHOSEN[name] for name in open_ones if name in CHOSEN}
    return partial(make, **chosen, **({"weights": WEIGHTS[make.__name__]} if "weights" in open_ones else {}))


@pytest.mark.parametrize("group_size", [1, 2, 5])
@pytest.mark.parametrize("make", CREDITS, ids=lambda make: make.__name__)
def test_every_credit_of_the_library_can_be_tried(make, group_size):
    credit = with_numbers(make)
    inputs = inputs_for(credit, group_size)
    given = credit(inputs)
    assert given.advantages.shape == (int(inputs.row_offsets[-1]),)
    assert given.advantages.isfinite().all()
    assert group_size == 1 or given.advantages.any()
    is_unscored = inputs.rewards.isnan()
    if make not in (weigh_parts, normalize_parts):  # whose reward is made of the parts alone
        assert not given.advantages[is_unscored.repeat_interleave(inputs.row_offsets.diff())].any()


def test_it_is_the_same_at_every_call():
    one, other = trial_inputs(4), trial_inputs(4)
    assert torch.equal(one.step_rewards, other.step_rewards)
    assert all(torch.equal(one.logprobs[name], other.logprobs[name]) for name in one.logprobs)


def test_it_has_every_kind_of_row():
    inputs = trial_inputs(4)
    credit = center_within_group(inputs)
    assert set(credit.untrained.values()) == {"zero_contrast", "unscored"}
    assert inputs.is_truncated.any()
    assert len(inputs.episode_index.unique()) < len(inputs.episode_index), "an episode has two rows"
    assert len(inputs.row_offsets.diff().unique()) > 2


def test_maps_of_the_stages_name_what_is_offered():
    credit = partial(multi_teacher_gap, teachers={4: "teacher/math"}, weights={4: 1.0})
    inputs = inputs_for(credit, 2)
    assert set(inputs.source_index.tolist()) == {4}
    assert "teacher/math" in inputs.logprobs
    inputs = inputs_for(partial(weigh_parts, credit=leave_one_out, weights={"tests": 1.0, "style": 0.1}), 2)
    assert {"part/tests", "part/style"} <= set(inputs.values)
    assert set(inputs_for(leave_one_out, 2, (3, 8)).source_index.tolist()) == {3, 8}


@pytest.mark.parametrize(
    ("rule", "masses"),
    [
        (TokenMean(), (2 / 14, 8 / 14, 4 / 14)),
        (ResponseMean(), (1 / 3, 1 / 3, 1 / 3)),
        (FixedLength(length=10), (2 / 30, 8 / 30, 4 / 30)),
        (SequenceSum(), (2 / 3, 8 / 3, 4 / 3)),
        (PromptMean(), (0.25, 0.25, 0.5)),
        (PromptMean(within="token"), (0.1, 0.4, 0.5)),
        (TokenMean(counting="kept"), (2 / 14, 8 / 14, 4 / 14)),
    ],
)
def test_example_rows_weigh_what_a_pencil_says(rule, masses):
    assert EXAMPLE_LENGTHS == (2, 8, 4)
    assert example_masses(rule) == pytest.approx(masses)
