"""The invariants that every preset holds, over one table of all of them."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, check_objective, presets
from rollwright.algorithms.flags import ZERO_ADVANTAGE, has_flag
from rollwright.algorithms.objective import WeightFn
from rollwright.algorithms.presets.table import PRESETS
from tests.algorithms.battery import (
    check_cuts,
    check_finite_differences,
    check_order,
    check_padded,
    check_poison,
    check_quiet_rows,
    check_single_precision,
    check_states,
    check_unchanged,
    gradient_by_token,
    whole,
)
from tests.algorithms.drawn_batches import GROUPS, batch_of_rows, batches, cut_row, episodes_of, seeded
from tests.algorithms.pieces import lay_out, run, update_of
from tests.algorithms.preset_table import ROWS, every_preset

SEEDS = (0, 1)
NUM_ROWS = len(GROUPS)
STEPS = {
    "EntropyFollowingClip",
    "bypassing_proximal",
    "clipped",
    "corrected",
    "gated",
    "score_function",
    "with_regularizer",
}
"""Exported beside the presets: what they are built with."""
few = settings(max_examples=4)


def test_every_preset_stands_in_the_library_s_table_and_in_that_of_what_holds():
    assert {name: make().name for name, make in PRESETS.items()} == {name: name for name in PRESETS}
    assert {row.objective.name for row in ROWS.values()} == set(PRESETS) == set(presets.__all__) - STEPS


def test_what_moves_without_contrast_says_why():
    assert all(row.why for row in ROWS.values() if row.shift != "group" or row.level != "group")


@every_preset
def test_every_preset_is_legal(row):
    check_objective(row.objective, group_size=4)


@every_preset
@few
@given(batch=batches(), data=st.data())
def test_loss_and_gradient_do_not_depend_on_the_cut(row, batch, data):
    cuts = data.draw(st.lists(st.integers(0, len(batch.lengths)), max_size=3))
    check_cuts(row.objective, batch, cuts, data.draw(st.permutations(range(len(batch.lengths)))))


@every_preset
@few
@given(batch=batches(), data=st.data())
def test_loss_and_gradient_do_not_depend_on_the_order_of_episodes(row, batch, data):
    order = data.draw(st.permutations(episodes_of(batch)))
    check_order(row.objective, batch, [place for episode in order for place in episode])


@every_preset
@few
@given(batch=batches())
def test_padded_batches_have_the_loss_and_gradient_of_packed_ones(row, batch):
    check_padded(row.objective, batch)


@every_preset
@few
@given(batch=batches())
def test_what_is_under_a_mask_changes_nothing(row, batch):
    check_poison(row.objective, batch)


@every_preset
@few
@given(batch=batches(unchanged=True))
def test_an_unchanged_policy_has_ratio_one_and_no_divergence(row, batch):
    check_unchanged(row.objective, batch)


@every_preset
@few
@given(batch=batches())
def test_rows_without_advantage_have_no_gradient(row, batch):
    check_quiet_rows(row.objective, batch)


@every_preset
def test_an_unchanged_policy_is_pushed_by_its_advantage(row):
    objective = replace(row.objective, regularizers=())
    for seed in SEEDS:
        packed = whole(objective, seeded(seed, distance=0.0))
        _, gradient = run(objective, packed)
        due = -packed.streams.token_weights * packed.streams.advantages
        mask = packed.streams.action_mask
        assert torch.allclose(gradient[mask], due[mask], atol=1e-12)
        assert gradient.any()


@every_preset
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_finite_differences(row, seed):
    check_finite_differences(row.objective, seeded(seed), row.held)


@every_preset
def test_single_precision_gives_the_numbers_of_double(row):
    assert sum(check_single_precision(row.objective, seeded(seed)) for seed in range(3)) >= 2


@every_preset
def test_what_an_objective_remembers_stands_still_while_a_loss_is_computed(row):
    check_states(row.objective, seeded(0))


@every_preset
def test_a_constant_added_to_rewards_changes_no_centred_advantage(row):
    by_group = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)[list(GROUPS)]
    for constant, holds in ((by_group, row.shift == "group"), (by_group[0], row.shift != "never")):
        moved = 0.0
        for seed in SEEDS:
            inputs = seeded(seed).inputs
            advantages = row.objective.credit(inputs).advantages
            shifted = row.objective.credit(replace(inputs, rewards=inputs.rewards + constant)).advantages
            moved = max(moved, float((shifted - advantages).abs().max()))
        assert (moved < 1e-9) is holds


@every_preset
def test_one_reward_level_gives_no_gradient_unless_the_method_says_otherwise(row):
    # One level is one but for the rounding of a sum, which is large where rewards are.
    objective = replace(row.objective, regularizers=())
    of_group = [3e5, 1e6 * (0.1 + 0.2), 1e6 * (0.1 + 0.2), 3e5] + [0.25] * 2 + [1.0] * 2 + [0.0]
    for rewards, holds in ((of_group, row.level == "group"), ([0.75] * NUM_ROWS, row.level != "moves")):
        moved = False
        for seed in SEEDS:
            terms, gradient = run(objective, whole(objective, seeded(seed, rewards=rewards, step_rewards=False)))
            moved = moved or bool(gradient.any())
            if holds:
                assert not terms.terms[objective.component].any()
                mask = whole(objective, seeded(seed, rewards=rewards, step_rewards=False)).streams.action_mask
                assert has_flag(terms.flags[mask], ZERO_ADVANTAGE).all()
        assert moved is not holds


@every_preset
def test_a_group_of_one_is_credited_only_where_attempts_are_not_compared(row):
    inputs = seeded(0, step_rewards=False).inputs
    alone = torch.tensor(GROUPS).repeat_interleave(inputs.row_offsets.diff()) == 3
    credited = bool(row.objective.credit(inputs).advantages[alone].any())
    assert credited is row.credits_alone


@every_preset
def test_a_piece_without_trained_tokens_is_a_zero_that_can_go_backward(row):
    empty = batch_of_rows(seeded(0), [7, 7], episodes=[0, 1])
    update = update_of(row.objective, empty.batch)
    for rows, padding in (([], 0), ([0, 1], 0), ([0, 1], 3)):
        terms, gradient = run(row.objective, lay_out(update, rows, padding=padding))
        assert float(terms.loss.detach()) == 0.0
        assert not gradient.any()


@every_preset
def test_an_empty_row_weighs_nothing(row):
    for seed in SEEDS:
        full = update_of(row.objective, seeded(seed))
        rest = update_of(row.objective, batch_of_rows(seeded(seed), [r for r in range(NUM_ROWS) if r != 7]).batch)
        assert torch.equal(full.main_weights, rest.main_weights)


@every_preset
def test_an_unscored_attempt_is_as_one_that_was_never_made(row):
    """Its row leaves statistics, denominators and gradient."""
    for seed in SEEDS:
        batch = seeded(seed)
        rest = batch_of_rows(batch, [place for place in range(NUM_ROWS) if place != 3])
        (loss, gradient), (due, slopes) = (gradient_by_token(row.objective, one) for one in (batch, rest.batch))
        is_same = torch.allclose(gradient[rest.token_index], slopes, rtol=1e-9, atol=1e-12)
        assert (is_same and loss == pytest.approx(due, abs=1e-9)) is not row.trains_unscored


@every_preset
def test_a_response_that_stands_twice_changes_its_group_and_the_denominators_alone(row):
    """Both copies are pushed alike; rows of other groups keep their advantages, and their weights follow the rule."""
    objective = replace(row.objective, regularizers=())
    for seed in SEEDS:
        batch = seeded(seed)
        twice = batch_of_rows(batch, [*range(NUM_ROWS), 4], episodes=[*batch.inputs.episode_index.tolist(), 99]).batch
        once, both = update_of(objective, batch), update_of(objective, twice)
        (_, slopes), (_, gradient) = (gradient_by_token(objective, one) for one in (batch, twice))
        first, copy = (slice(*twice.inputs.row_offsets[place : place + 2].tolist()) for place in (4, NUM_ROWS))
        assert torch.allclose(gradient[first], gradient[copy], rtol=1e-9, atol=1e-12)
        elsewhere = (torch.tensor(GROUPS) != 1).repeat_interleave(batch.inputs.row_offsets.diff())
        before, after = once.main_weights[elsewhere], both.main_weights[: len(elsewhere)][elsewhere]
        assert (
            torch.allclose(after, before * share_kept(once, objective.weights), rtol=1e-12)
            or objective.weights.counting == "kept"
        )
        if row.local:
            advantages = both.credit.advantages[: len(elsewhere)]
            assert torch.equal(once.credit.advantages[elsewhere], advantages[elsewhere])
            assert torch.allclose(slopes[elsewhere] * after, gradient[: len(elsewhere)][elsewhere] * before, atol=1e-12)


def share_kept(update, rule):
    """What is left of the weight of another group's token once row 4, of four tokens, stands twice."""
    tokens = int(update.is_trained.sum())
    trained = torch.tensor([bool(one.any()) for one in update.is_trained.split(update.batch.lengths)]).sum()
    shares = {"token_mean": tokens / (tokens + 4), "prompt_mean": 1.0}
    return shares.get(rule.name, float(trained / (trained + 1)))


@every_preset
def test_an_action_of_two_spans_has_the_loss_of_one(row):
    """A token of the environment in the middle of an action makes two turns of it."""
    is_same = []
    for seed in SEEDS:
        batch = seeded(seed)
        places = torch.arange(len(batch.inputs.turn_index))
        one_turn = replace(batch, inputs=replace(batch.inputs, turn_index=torch.zeros_like(places)))
        two_turns = replace(batch, inputs=replace(batch.inputs, turn_index=places % 2))
        (loss, gradient), (due, slopes) = (gradient_by_token(row.objective, one) for one in (two_turns, one_turn))
        is_same.append(loss == pytest.approx(due, abs=1e-12) and torch.allclose(gradient, slopes, atol=1e-12))
    assert all(is_same) is not row.reads_turns


@every_preset
def test_a_row_that_is_cut_in_two_keeps_a_token_global_loss(row):
    """Row 4 of four tokens as two rows of its episode, of three and one."""
    is_same = []
    for seed in SEEDS:
        batch = seeded(seed, step_rewards=False)
        (loss, gradient), (due, slopes) = (
            gradient_by_token(row.objective, one) for one in (cut_row(batch, 4, 3), batch)
        )
        is_same.append(loss == pytest.approx(due, abs=1e-12) and torch.allclose(gradient, slopes, atol=1e-12))
    assert all(is_same) is row.token_global


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A denominator whose weights are not what its closed form says."""

    rule: WeightFn
    fault: str

    @property
    def name(self):
        return self.rule.name

    @property
    def counting(self):
        return self.rule.counting

    def __call__(self, inputs, keep):
        weights = self.rule(inputs, keep)
        if self.fault == "one token too few":
            return weights * len(weights) / (len(weights) - 1)
        if self.fault == "padded width":
            return weights * len(weights) / float(inputs.row_offsets.diff().max() * len(inputs.rewards))
        weights[: int(inputs.row_offsets[1])] = 0.0
        return weights

    def weight_sum(self, rows):
        return self.rule.weight_sum(rows)

    def denominator(self, rows):
        return self.rule.denominator(rows)


@every_preset
@pytest.mark.parametrize("fault", ["one token too few", "padded width", "a row without weight"])
def test_a_wrong_denominator_is_refused(row, fault):
    wrong = replace(row.objective, weights=Wrong(rule=row.objective.weights, fault=fault))
    with pytest.raises(ObjectiveError, match="the closed form says"):
        check_objective(wrong, group_size=4)
    for term in row.objective.regularizers:
        terms = (replace(term, weights=Wrong(rule=term.weights, fault=fault)),)
        with pytest.raises(ObjectiveError, match="the closed form says"):
            check_objective(replace(row.objective, regularizers=terms), group_size=4)
