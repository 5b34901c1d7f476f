"""What holds for every credit from values, turns, states, process rewards, teachers, graders and flags."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.distillation import (
    multi_teacher_gap,
    policy_shift,
    task_plus_teacher_gap,
    teacher_gap,
)
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.implicit_process import implicit_process_reward
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.quality import redistribute_by_quality, reject_hacks
from rollwright.algorithms.credit.segment_penalty import penalize_segments
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.v_trace import v_trace
from tests.algorithms.pieces import credit_inputs

CREDITS = {
    "generalized_advantage": partial(generalized_advantage, discount=0.9, policy_lambda=0.8),
    "length_adaptive": partial(generalized_advantage, policy_lambda=LengthAdaptive(alpha=0.5)),
    "turn_level_advantage": partial(turn_level_advantage, discount=0.9, decay=0.8),
    "anchor_state_advantage": anchor_state_advantage,
    "anchor_state_std": partial(anchor_state_advantage, scaling="std"),
    "implicit_process_reward": implicit_process_reward,
    "implicit_process_released": partial(implicit_process_reward, form="released", discount=0.9),
    "learn_from_level_groups": partial(learn_from_level_groups, credit=center_within_group, alpha=0.1),
    "compaction_advantage": partial(compaction_advantage, policy_lambda=0.8),
    "compaction_value": partial(compaction_advantage, policy_lambda=0.8, boundary="value"),
    "teacher_gap": teacher_gap,
    "multi_teacher_gap": partial(multi_teacher_gap, teachers={0: "teacher"}, weights={0: 1.0}),
    "task_plus_teacher_gap": partial(task_plus_teacher_gap, credit=center_within_group, eta=0.1, kappa=1.0),
    "policy_shift": partial(policy_shift, scale=1.0),
    "self_teacher_gap": self_teacher_gap,
    "reinforce_surprises": partial(reinforce_surprises, credit=center_within_group, bonus=0.1),
    "redistribute_by_quality": partial(reject_hacks, credit=partial(redistribute_by_quality, max_scale=1.5)),
    "penalize_segments": partial(penalize_segments, credit=center_within_group, kappa=2.0, alpha_max=2.0, beta_min=0.0),
    "v_trace": v_trace,
}
ALONE = {name: credit for name, credit in CREDITS.items() if name != "penalize_segments"}
"""All but the one whose factors are of all rows, so that groups do meet."""
OF_ROWS = {"bootstrap", "quality", "is_hack"}

every_credit = pytest.mark.parametrize("credit", [pytest.param(one, id=name) for name, one in CREDITS.items()])
some_rows = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1.0, None]), st.integers(0, 4)), min_size=1, max_size=5)
few = settings(max_examples=15)


def batch(drawn, seed, *, groups):
    """Rows with every stream that a credit of this family may read."""
    rewards, lengths = [reward for reward, _ in drawn], [length for _, length in drawn]
    inputs = credit_inputs(
        rewards, groups=groups, lengths=lengths, truncated=[row % 3 == 0 for row in range(len(drawn))]
    )
    num_tokens, num_rows = sum(lengths), len(drawn)
    generator = torch.Generator().manual_seed(seed)

    def scores(count):
        return torch.rand(count, generator=generator, dtype=torch.float64)

    names = ("behavior", "proximal", "teacher", "informed", "after", "before", "process", "process_reference")
    return replace(
        inputs,
        step_rewards=scores(num_tokens),
        turn_index=torch.randint(3, (num_tokens,), generator=generator).sort().values,
        state_index=torch.randint(-1, 3, (num_tokens,), generator=generator),
        logprobs={name: -scores(num_tokens) for name in names},
        values={
            "predicted": scores(num_tokens),
            "bootstrap": scores(num_rows),
            "entropy": scores(num_tokens),
            "quality": scores(num_rows).clamp(min=0.1),
            "is_hack": (scores(num_rows) > 0.8).to(torch.float64),
            "is_flagged": (scores(num_tokens) > 0.7).to(torch.float64),
        },
    )


def rows_of(inputs, start, stop):
    """Some rows of a batch by themselves."""
    ends = inputs.row_offsets.tolist()
    here, tokens = slice(start, stop), slice(ends[start], ends[stop])
    return replace(
        inputs,
        rewards=inputs.rewards[here],
        group_index=inputs.group_index[here],
        source_index=inputs.source_index[here],
        episode_index=inputs.episode_index[here],
        row_offsets=inputs.row_offsets[start : stop + 1] - ends[start],
        is_truncated=inputs.is_truncated[here],
        step_rewards=inputs.step_rewards[tokens],
        turn_index=inputs.turn_index[tokens],
        state_index=inputs.state_index[tokens],
        logprobs={name: one[tokens] for name, one in inputs.logprobs.items()},
        values={name: one[here if name in OF_ROWS else tokens] for name, one in inputs.values.items()},
    )


@pytest.mark.parametrize("credit", [pytest.param(one, id=name) for name, one in ALONE.items()])
@few
@given(some_rows, some_rows, st.integers(0, 99))
def test_groups_do_not_meet(credit, one, other, seed):
    inputs = batch([*one, *other], seed, groups=[0] * len(one) + [1] * len(other))
    whole = credit(inputs)
    parts = [credit(rows_of(inputs, 0, len(one))), credit(rows_of(inputs, len(one), len(one) + len(other)))]
    torch.testing.assert_close(whole.advantages, torch.cat([part.advantages for part in parts]), rtol=0, atol=1e-12)
    shifted = {row + len(one): reason for row, reason in parts[1].untrained.items()}
    assert whole.untrained == {**parts[0].untrained, **shifted}


@every_credit
@few
@given(some_rows, st.integers(0, 99))
def test_an_unscored_row_has_exactly_zero_and_its_reason_and_every_row_of_zeros_is_finite(credit, drawn, seed):
    inputs = batch(drawn, seed, groups=[0] * len(drawn))
    found = credit(inputs)
    assert found.advantages.dtype == torch.float64
    assert found.advantages.shape == (int(inputs.row_offsets[-1]),)
    assert found.advantages.isfinite().all()
    row = torch.arange(len(drawn)).repeat_interleave(inputs.row_offsets.diff())
    for place, (reward, _) in enumerate(drawn):
        if reward is None:
            assert found.untrained[place] == UNSCORED
        if place in found.untrained:
            assert not found.advantages[row == place].any()


@every_credit
def test_a_batch_without_rows_or_without_tokens_has_no_credit(credit):
    for drawn in ([], [(1.0, 0), (0.0, 0)]):
        found = credit(batch(drawn, 0, groups=[0] * len(drawn)))
        assert found.advantages.shape == (0,)


@every_credit
@few
@given(some_rows, st.integers(0, 99))
def test_what_an_unscored_row_holds_reaches_no_other_row(credit, drawn, seed):
    drawn = [*drawn, (None, 3)]
    clean = batch(drawn, seed, groups=[0] * len(drawn))
    poisoned = replace(
        clean,
        step_rewards=_poison(clean.step_rewards),
        logprobs={name: _poison(one) for name, one in clean.logprobs.items()},
        values={name: one if name in OF_ROWS else _poison(one) for name, one in clean.values.items()},
    )
    assert credit(poisoned).advantages.equal(credit(clean).advantages)


def _poison(stream):
    """The last row's three tokens are not finite."""
    spoiled = stream.clone()
    spoiled[-3:] = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=stream.dtype)
    return spoiled
