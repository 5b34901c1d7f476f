"""Credit for rare successes, for the best of k, and imitation of successes."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    Objective,
    ObjectiveError,
    PromptMean,
    TokenStreams,
    loss_terms,
    return_to_go,
    supervised,
)
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit, pass_at_k_scores
from rollwright.algorithms.credit.successes import REJECTED, condition_on_success, imitate_successes
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def test_a_rare_success_weighs_one_over_its_rate():
    found = divide_by_mean(credit_inputs(method_fixture("M31.a").input["R"])).advantages
    assert found.tolist() == method_fixture("M31.a").expect["A"]
    for successes in (1, 2, 4):
        rewards = [1.0] * successes + [0.0] * (8 - successes)
        assert float(divide_by_mean(credit_inputs(rewards)).advantages[0]) == pytest.approx(8 / successes - 1)


def test_a_group_without_success_has_no_credit_and_negative_rewards_are_refused():
    credit = divide_by_mean(credit_inputs([0.0, 0.0, None], lengths=[1, 2, 1]))
    assert credit.advantages.tolist() == [0.0] * 4
    assert credit.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST, 2: UNSCORED}
    with pytest.raises(ObjectiveError, match=r"rows \[1\] have rewards below 0"):
        divide_by_mean(credit_inputs([1.0, -1.0]))
    assert divide_by_mean(credit_inputs([])).advantages.tolist() == []


def test_group_mean_division_is_the_gradient_of_likelihood_cut_at_the_order_below_the_group_size():
    group, p = 4, 0.3
    expected = 0.0
    for outcome in range(2**group):
        rewards = [float(outcome >> bit & 1) for bit in range(group)]
        chance = float(torch.tensor([p if reward else 1 - p for reward in rewards]).double().prod())
        credit = divide_by_mean(credit_inputs(rewards)).advantages
        # d log π / d p of a success is 1/p, of a failure −1/(1 − p).
        scores = torch.tensor([1 / p if reward else -1 / (1 - p) for reward in rewards]).double()
        expected += chance * float((credit * scores).mean())
    # d log p / d p is Σ_k (1 − p)^(k−1) over all orders k, from 1 on.
    assert expected == pytest.approx(sum((1 - p) ** (k - 1) for k in range(1, group)))


def subset_value(rewards, subset):
    return max(rewards[member] for member in subset)


@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 2), (5, 3), (6, 6)])
def test_pass_at_k_credit_is_that_of_all_subsets(n, k):
    for outcome in range(2**n):
        rewards = [float(outcome >> bit & 1) for bit in range(n)]
        subsets = list(combinations(range(n), k))
        scores = pass_at_k_scores(credit_inputs(rewards), k=k)
        credit = pass_at_k_credit(credit_inputs(rewards), k=k).advantages
        for member in range(n):
            holding = [subset for subset in subsets if member in subset]
            value = sum(subset_value(rewards, subset) for subset in holding) / len(subsets)
            without = sum(max(rewards[other] for other in subset if other != member) for subset in holding) / len(
                subsets
            )
            assert float(scores[member]) == pytest.approx(value)
            assert float(credit[member]) == pytest.approx(value - without, abs=1e-12)


def test_pass_at_k_counts_episodes_and_leaves_short_groups_out():
    fixture = method_fixture("M32.a")
    split = credit_inputs([1, 1, 0, 0, 0, None], episodes=[0, 0, 1, 2, 3, 4])
    found = pass_at_k_credit(split, k=2)
    assert found.advantages.tolist() == pytest.approx([fixture.expect["A_correct"]] * 2 + [0.0] * 4)
    assert found.untrained == {5: UNSCORED}
    scores = pass_at_k_scores(split, k=2)
    assert scores[:3].tolist() == pytest.approx([fixture.expect["s_correct"]] * 2 + [fixture.expect["s_wrong"]])
    assert scores[5].isnan()
    short = pass_at_k_credit(credit_inputs([1, 0]), k=3)
    assert short.advantages.tolist() == [0.0, 0.0]
    assert short.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}
    assert pass_at_k_scores(credit_inputs([1, 0]), k=3).isnan().all()
    with pytest.raises(ObjectiveError, match="k is 1"):
        pass_at_k_credit(credit_inputs([1, 0]), k=1)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_pass_at_k_of_one_level_is_exactly_zero(level):
    credit = pass_at_k_credit(credit_inputs([level] * 4), k=2)
    assert credit.advantages.tolist() == [0.0] * 4
    assert set(credit.untrained.values()) == {ZERO_CONTRAST}


def test_success_is_a_threshold():
    found = pass_at_k_credit(credit_inputs([0.7, 0.2, 0.4, 0.0]), k=2, success_at=0.5).advantages
    assert found.tolist() == [0.5, 0.0, 0.0, 0.0]


def test_only_the_best_attempt_has_its_lead():
    fixture = method_fixture("M32.b")
    inputs = credit_inputs(fixture.input["R"])
    assert best_minus_second(inputs).advantages.tolist() == pytest.approx(fixture.expect["A"])
    spread = inputs.rewards.std(correction=1)
    scaled = best_minus_second(inputs, scaling="std").advantages
    assert float(scaled[0]) == pytest.approx(0.3 / (float(spread) + 1e-6))
    assert best_minus_second(credit_inputs([1.0, 0.1 + 0.2 + 0.7, 0.0])).advantages.tolist() == [0.0] * 3
    assert best_minus_second(credit_inputs([-3.0, -5.0])).advantages.tolist() == [2.0, 0.0]
    with pytest.raises(ObjectiveError, match="ddof is 2"):
        best_minus_second(inputs, ddof=2)


def test_the_second_is_another_episode():
    inputs = credit_inputs([1.0, 1.0, 0.25, None, 5.0], episodes=[0, 0, 1, 2, 3], groups=[0, 0, 0, 0, 1])
    credit = best_minus_second(inputs)
    assert credit.advantages.tolist() == [0.75, 0.75, 0.0, 0.0, 0.0]
    assert credit.untrained == {3: UNSCORED, 4: ZERO_CONTRAST}
    assert best_minus_second(credit_inputs([])).advantages.tolist() == []


@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 2).map(float) | st.none(), st.integers(0, 2), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    )
)
def test_success_credits_are_finite_with_a_reason_for_every_row_without_contrast(drawn):
    rewards, groups, lengths = zip(*drawn, strict=True)
    inputs = credit_inputs(rewards, groups=groups, lengths=lengths)
    for estimate in (divide_by_mean, best_minus_second, partial(pass_at_k_credit, k=2)):
        credit = estimate(inputs)
        assert credit.advantages.isfinite().all()
        unscored = [row for row, reward in enumerate(rewards) if reward is None]
        assert [row for row, reason in credit.untrained.items() if reason == UNSCORED] == unscored
        of_token = torch.arange(len(rewards)).repeat_interleave(inputs.row_offsets.diff())
        assert not credit.advantages[
            torch.isin(of_token, torch.tensor(list(credit.untrained), dtype=torch.int64))
        ].any()


def test_failures_are_withheld_from_imitation():
    credit = imitate_successes(credit_inputs([1.0, 0.5, None], lengths=[2, 1, 1]))
    assert credit.advantages.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert credit.untrained == {1: REJECTED, 2: UNSCORED}
    assert imitate_successes(credit_inputs([0.5]), threshold=0.5).untrained == {}


def test_imitation_aims_at_the_policy_given_success():
    fixture = method_fixture("M34.a")
    found = condition_on_success(torch.tensor(fixture.input["pi_old"]), torch.tensor(fixture.input["success"]) == 1)
    assert found.target.tolist() == pytest.approx(fixture.expect["target"])
    assert found.chance == pytest.approx(fixture.expect["p_success"])
    never = condition_on_success(torch.tensor([0.5, 0.5]), torch.tensor([False, False]))
    assert never.target.tolist() == [0.0, 0.0]
    with pytest.raises(ObjectiveError, match="give one each"):
        condition_on_success(torch.ones(2), torch.tensor([True]))


def imitated(objective: Objective, logits, tasks, answers, is_correct):
    """The loss of imitation on the attempts that passed, as the learner would see them: others are withheld."""
    rewards = [1.0 if correct else 0.0 for correct in is_correct.tolist()]
    everything = credit_inputs(rewards, groups=tasks.tolist())
    credit = objective.credit(everything)
    kept = [row for row in range(len(rewards)) if row not in credit.untrained]
    assert all(is_correct[row] for row in kept)
    inputs = credit_inputs([1.0] * len(kept), groups=tasks[kept].tolist())
    current = logits[tasks[kept]].log_softmax(-1).gather(1, answers[kept, None]).squeeze(1)
    streams = stream_of_rows(current, credit.advantages[kept], objective.weights(inputs, None))
    return loss_terms(objective, streams, {}).loss


def stream_of_rows(current, advantages, weights):
    return TokenStreams(
        row_offsets=torch.arange(len(current) + 1),
        action_mask=torch.ones(len(current), dtype=torch.bool),
        advantages=advantages,
        token_weights=weights,
        policy_versions=torch.zeros(len(current), dtype=torch.int32),
        logprobs={"current": current},
        values={},
    )


@pytest.mark.row("S203")
def test_two_rounds_of_generate_filter_finetune_raise_held_out_accuracy():
    """Tasks are pairs of digits, answers their sum modulo 10; a policy linear in shared features has to generalize."""
    generator = torch.Generator().manual_seed(3)
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
    sums = pairs.sum(1) % 10
    # Features of a task: its sum, seen through noise that hides nothing, so that held-out tasks share them.
    features = torch.nn.functional.one_hot(sums, 10).double() + 0.3 * torch.randn(100, 10, generator=generator).double()
    order = torch.randperm(100, generator=generator)
    training, held_out = order[:60], order[60:]
    weights = 0.3 * torch.randn(10, 10, generator=generator).double()
    objective = replace(supervised(weights=PromptMean()), credit=imitate_successes)

    def accuracy(weights):
        return float((features[held_out] @ weights).softmax(-1).gather(1, sums[held_out, None]).mean())

    reached = [accuracy(weights)]
    for _ in range(2):
        logits = features[training] @ weights
        answers = torch.multinomial(logits.softmax(-1), 8, replacement=True, generator=generator)
        tasks = torch.arange(60).repeat_interleave(8)
        is_correct = answers.flatten() == sums[training][tasks]
        assert 0 < int(is_correct.sum()) < len(tasks)
        trained = weights.clone().requires_grad_()
        optimizer = torch.optim.SGD([trained], lr=2.0)
        for _ in range(50):
            optimizer.zero_grad()
            imitated(objective, features[training] @ trained, tasks, answers.flatten(), is_correct).backward()
            optimizer.step()
        weights = trained.detach()
        reached.append(accuracy(weights))
    assert reached[0] < 0.2
    assert reached[0] + 0.2 < reached[1] < reached[2]


@pytest.mark.row("S225")
def test_the_mass_of_correct_tokens_rises_surely_once_many_rollouts_are_sampled():
    """One token of 64, 16 of them correct and paid +1, the others −1: a step of REINFORCE on N draws.

    Draws push tokens that were not drawn down or up with them; the more are drawn, the less that term weighs.
    """
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, generator=generator).double()
    is_correct = torch.arange(64) < 16
    policy = logits.softmax(0)
    before = float(policy[is_correct].sum())

    def change(num_rollouts):
        """The mass after one step on N rollouts, less the mass before."""
        drawn = torch.multinomial(policy, num_rollouts, replacement=True, generator=generator)
        rewards = torch.where(is_correct[drawn], 1.0, -1.0)
        advantages = return_to_go(credit_inputs(rewards.tolist())).advantages
        counts = torch.zeros(64).double().index_add(0, drawn, advantages / num_rollouts)
        step = counts - policy * counts.sum()
        return float((logits + 2.0 * step).softmax(0)[is_correct].sum()) - before

    def falls(num_rollouts):
        changes = [change(num_rollouts) for _ in range(200)]
        return sum(one < 0 for one in changes) / len(changes), min(changes)

    few, middle, many = falls(1), falls(16), falls(256)
    assert few[0] > 0.5 > middle[0] > many[0] == 0.0
    assert few[1] < middle[1] < 0 < many[1]
