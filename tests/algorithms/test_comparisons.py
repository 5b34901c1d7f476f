"""What is compared with what: calls of an episode, roles and parents, siblings, pivot turns, task sources."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    Objective,
    ObjectiveError,
    SequenceSum,
    center_within_group,
    leave_one_out,
    return_to_go,
    row_lengths,
    score_function,
    standardize_within_group,
)
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls, calls_of_rows
from rollwright.algorithms.credit.comparison import ComparisonKey, compare_within
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.pivots import find_pivots
from rollwright.algorithms.credit.roles import blend_rewards, freeze_roles
from rollwright.algorithms.credit.successes import REJECTED
from rollwright.algorithms.denominators.equal_siblings import EqualSiblings
from rollwright.algorithms.objective import Credit
from rollwright.algorithms.rewards.step_similarity import step_similarity
from rollwright.algorithms.rows import row_sum
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, pack, weights_of
from tests.cases import method_fixture


def with_turns(inputs, turns):
    return replace(inputs, turn_index=torch.tensor(turns, dtype=torch.int64))


def with_keys(inputs, **keys):
    return replace(inputs, keys={name: torch.tensor(values, dtype=torch.int64) for name, values in keys.items()})


@pytest.mark.row("S286")
def test_calls_get_the_return_of_their_episode_and_a_hook_overrides_the_copy():
    fixture = method_fixture("M16.a")
    # An episode of two calls, one of one: as rows of turns, or as a row for each call.
    in_turns = with_turns(credit_inputs([1.0, 0.0], lengths=[5, 1]), [0, 0, 1, 1, 1, 0])
    in_rows = credit_inputs([1.0, 1.0, 0.0], lengths=[2, 3, 1], episodes=[0, 0, 1])
    copied = [fixture.expect["A_call"][0]] * 5 + [fixture.expect["A_call"][2]]
    for inputs in (in_turns, in_rows):
        assert broadcast_to_calls(inputs).advantages.tolist() == copied
        by_call = broadcast_to_calls(inputs, baseline="call").advantages
        assert by_call[[0, 4, 5]].tolist() == pytest.approx(method_fixture("M16.b").expect["A_call"])

    def last_call_only(inputs, of_calls):
        return of_calls * (inputs.turn_index > 0)

    hooked = broadcast_to_calls(in_turns, token_credit=last_call_only)
    assert hooked.advantages.tolist() == [0.0, 0.0, 0.5, 0.5, 0.5, 0.0]


def test_a_hook_is_held_to_its_shape_and_to_trained_rows():
    inputs = with_turns(credit_inputs([1.0, 0.0, None], lengths=[1, 1, 2]), [0, 0, 0, 0])
    for wrong in (torch.ones(3), torch.full((4,), torch.nan)):
        with pytest.raises(ObjectiveError, match="token_credit gave"):
            broadcast_to_calls(inputs, token_credit=lambda _, __, wrong=wrong: wrong)
    found = broadcast_to_calls(inputs, token_credit=lambda _, __: torch.ones(4))
    assert found.advantages.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert found.untrained == {2: UNSCORED}


def test_calls_are_turns_with_action_tokens():
    inputs = with_turns(credit_inputs([0, 0, 0], lengths=[4, 0, 3]), [0, 0, 2, 3, 3, 3, 3])
    assert calls_of_rows(inputs).tolist() == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("baseline", ["episode", "call"])
def test_an_episode_without_a_call_is_in_no_mean(baseline):
    inputs = credit_inputs([1.0, 0.0, 9.0], lengths=[2, 1, 0])
    assert broadcast_to_calls(inputs, baseline=baseline).advantages.tolist() == pytest.approx([0.5, 0.5, -0.5])
    lone = broadcast_to_calls(credit_inputs([1.0, 0.0], lengths=[1, 0]), baseline=baseline)
    assert lone.advantages.tolist() == [0.0]
    assert lone.untrained == {0: ZERO_CONTRAST, 1: ZERO_CONTRAST}


@pytest.mark.row("S313")
@pytest.mark.parametrize("estimate", [center_within_group, leave_one_out, standardize_within_group, broadcast_to_calls])
def test_every_action_token_of_a_trajectory_has_the_same_advantage(estimate):
    # Two trajectories of three rows and of one, many turns long.
    inputs = with_turns(
        credit_inputs([1.0, 1.0, 1.0, 0.0], lengths=[3, 1, 2, 5], episodes=[0, 0, 0, 1]),
        [0, 1, 1, 0, 0, 3, 0, 1, 2, 3, 4],
    )
    found = estimate(inputs).advantages
    assert set(found[:6].tolist()) == {float(found[0])}
    assert set(found[6:].tolist()) == {float(found[6])}
    assert float(found[0]) > 0 > float(found[6])


def test_solvers_are_compared_within_their_problem_and_proposers_across_problems():
    fixture = method_fixture("M17.a")
    by_problem = fixture.input["solver_R_by_problem"]
    rewards = [*fixture.input["proposer_R"], *by_problem["A"], *by_problem["B"]]
    inputs = with_keys(credit_inputs(rewards), role=[0, 0, *[1] * 6], parent=[0, 0, 0, 0, 0, 1, 1, 1])
    found = compare_within(inputs, credit=center_within_group, by=("role", "parent")).advantages
    due = [*fixture.expect["A_proposer"], *fixture.expect["A_solver"]["A"], *fixture.expect["A_solver"]["B"]]
    assert found.tolist() == pytest.approx(due)
    mixed = center_within_group(inputs).advantages
    assert mixed.tolist() != pytest.approx(due)


def test_an_episode_counts_once_in_each_comparison_group():
    # Two episodes, each with a proposer's row and three solver's rows that share an outcome.
    inputs = with_keys(
        credit_inputs([0.2, 1, 1, 1, 0.6, 0, 0, 0], episodes=[0] * 4 + [1] * 4), role=[0, 1, 1, 1, 0, 1, 1, 1]
    )
    credit = compare_within(inputs, credit=center_within_group, by=("role",))
    assert credit.advantages.tolist() == pytest.approx([-0.2, 0.5, 0.5, 0.5, 0.2, -0.5, -0.5, -0.5])
    assert credit.untrained == {}


def test_comparison_groups_by_dispatch_task_and_state():
    inputs = credit_inputs([1, 0, 1, 1, 0, 0], groups=[0, 0, 1, 1, 2, 2])
    plain = center_within_group(inputs)
    same = compare_within(inputs, credit=center_within_group)
    assert same.advantages.tolist() == plain.advantages.tolist()
    assert same.untrained == plain.untrained
    by_task = compare_within(with_keys(inputs, task=[7, 7, 3, 3, 3, 3]), credit=center_within_group, by=("task",))
    assert by_task.advantages.tolist() == [0.5, -0.5, 0.5, 0.5, -0.5, -0.5]
    states = replace(inputs, state_index=torch.tensor([4, 4, 4, -1, -1, 9]))
    by_state = compare_within(states, credit=center_within_group, by=("state",))
    assert by_state.advantages.tolist() == pytest.approx([1 / 3, -2 / 3, 1 / 3, 0, 0, 0])
    # Rows of an unknown state are not alike for that: each is in a group of its own.
    assert by_state.untrained == {3: ZERO_CONTRAST, 4: ZERO_CONTRAST, 5: ZERO_CONTRAST}


def test_a_row_without_tokens_is_compared_with_nothing():
    inputs = credit_inputs([1.0, 0.0, 9.0], lengths=[1, 1, 0])
    assert compare_within(inputs, credit=center_within_group).advantages.tolist() == [0.5, -0.5]
    empty = compare_within(credit_inputs([]), credit=center_within_group)
    assert empty.advantages.tolist() == []


def test_comparison_keys_that_are_wrong_or_missing_are_refused():
    wrong: tuple[tuple[ComparisonKey, ...], ...] = ((), ("role", "role"))
    for by in wrong:
        with pytest.raises(ObjectiveError, match="rows are compared by"):
            compare_within(credit_inputs([1]), credit=center_within_group, by=by)
    with pytest.raises(ObjectiveError, match="`parent` keys"):
        compare_within(credit_inputs([1]), credit=center_within_group, by=("parent",))


@given(drawn=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=10))
def test_roles_never_mix(drawn):
    rewards, groups, roles = zip(*drawn, strict=True)
    inputs = with_keys(credit_inputs(rewards, groups=groups), role=list(roles))
    found = compare_within(inputs, credit=leave_one_out, by=("dispatch", "role")).advantages
    for role in set(roles):
        rows = [row for row, of in enumerate(roles) if of == role]
        alone = credit_inputs([rewards[row] for row in rows], groups=[groups[row] for row in rows])
        assert found[rows].tolist() == pytest.approx(leave_one_out(alone).advantages.tolist())


def test_every_rollout_has_the_same_mass_however_many_siblings_it_has():
    fixture = method_fixture("M17.b")
    rule = EqualSiblings()
    inputs = credit_inputs([0.0] * 4, lengths=[4, 2, 2, 8], episodes=[0, 0, 0, 1])
    weights = rule(inputs, None)
    rows = row_lengths(inputs, None)
    assert float(weights.sum()) == pytest.approx(rule.weight_sum(rows))
    assert rule.denominator(rows) == 2.0
    mass = row_sum(weights, inputs.row_offsets) * 2
    assert mass.tolist() == pytest.approx([*fixture.expect["sibling_mass"][0], *fixture.expect["sibling_mass"][1]])
    assert (weights * 2)[[0, 4, 6, 8]].tolist() == pytest.approx(
        [*fixture.expect["token_weight"][0], *fixture.expect["token_weight"][1]]
    )


def test_siblings_without_tokens_are_not_counted():
    rule = EqualSiblings()
    inputs = credit_inputs([0.0] * 4, lengths=[2, 0, 0, 1], episodes=[0, 0, 1, 2])
    assert rule(inputs, None).tolist() == [0.25, 0.25, 0.5]
    assert rule.denominator(row_lengths(inputs, None)) == 2.0
    nothing = credit_inputs([], lengths=[])
    assert rule(nothing, None).tolist() == []
    assert rule.weight_sum(row_lengths(nothing, None)) == 0.0


def test_siblings_count_kept_tokens_under_kept():
    rule = EqualSiblings(counting="kept")
    inputs = credit_inputs([0.0] * 3, lengths=[2, 1, 2], episodes=[0, 0, 1])
    keep = torch.tensor([True, False, False, True, True])
    assert rule(inputs, keep).tolist() == [0.5, 0.0, 0.0, 0.25, 0.25]
    assert rule.weight_sum(row_lengths(inputs, keep)) == 1.0
    with pytest.raises(ObjectiveError, match="needs the keep mask"):
        rule(inputs, None)


def gradient_by_row(objective: Objective, inputs) -> list[float]:
    """The gradient of the loss in the log-probabilities, summed over each row."""
    batch = Batch(inputs=inputs, logprobs={"current": torch.full((int(inputs.row_offsets[-1]),), -1.0)})
    whole = pack(objective, batch, range(len(batch.lengths)), weights=weights_of(objective, batch))
    _, gradient = gradient_of(objective, batch, [whole])
    return row_sum(gradient, inputs.row_offsets).tolist()


@pytest.mark.row("S295")
def test_role_turn_and_trajectory_rewards_combine_by_declared_weights_and_a_frozen_role_has_no_gradient():
    inputs = replace(
        with_keys(credit_inputs([1.0, 0.0, 1.0, 0.0], lengths=[2, 2, 1, 1]), role=[0, 0, 1, 1]),
        step_rewards=torch.tensor([0.5, 0.0, 0.0, 0.25, 0.0, 0.0], dtype=torch.float64),
        values={"role_reward": torch.tensor([0.0, 2.0, 0.0, 4.0], dtype=torch.float64)},
    )
    weighted = partial(blend_rewards, trajectory=1.0, role=0.5, turn=2.0)
    on_the_way = weighted(inputs, credit=return_to_go).advantages
    assert on_the_way.tolist() == [1.0 + 2 * 0.5, 1.0, 0.5 * 2 + 2 * 0.25, 0.5 * 2 + 2 * 0.25, 1.0, 0.5 * 4]
    totals = weighted(inputs, credit=return_to_go, turns="in_total").advantages
    assert totals.tolist() == [2.0, 2.0, 1.5, 1.5, 1.0, 2.0]
    compared = partial(compare_within, credit=center_within_group, by=("role",))
    trained = partial(weighted, credit=compared, turns="in_total")
    assert trained(inputs).advantages.tolist() == [0.25, 0.25, -0.25, -0.25, -0.5, 0.5]

    frozen = partial(freeze_roles, credit=trained, roles=(1,))
    assert {row: reason for row, reason in frozen(inputs).untrained.items()} == {2: REJECTED, 3: REJECTED}
    both = gradient_by_row(score_function("both", credit=trained, weights=SequenceSum()), inputs)
    one = gradient_by_row(score_function("one", credit=frozen, weights=SequenceSum()), inputs)
    assert all(both)
    assert one[:2] == both[:2]
    assert one[2:] == [0.0, 0.0]


def test_a_missing_role_reward_is_no_reward():
    inputs = replace(
        credit_inputs([1.0, 0.0, 1.0]), values={"role_reward": torch.tensor([1.0, torch.nan, 0.0]).double()}
    )
    credit = blend_rewards(inputs, credit=center_within_group, trajectory=1.0, role=1.0, turn=0.0)
    assert credit.advantages.tolist() == [0.5, 0.0, -0.5]
    assert credit.untrained == {1: UNSCORED}
    # With weight 0 the role reward is not read at all.
    unread = blend_rewards(credit_inputs([1.0, 0.0]), credit=center_within_group, trajectory=1.0, role=0.0, turn=0.0)
    assert unread.advantages.tolist() == [0.5, -0.5]
    with pytest.raises(ObjectiveError, match="role_reward"):
        blend_rewards(credit_inputs([1.0]), credit=center_within_group, trajectory=1.0, role=1.0, turn=0.0)


@pytest.mark.row("S285")
def test_pivots_are_the_uncertain_turns_and_closeness_to_the_expert_is_the_reward():
    fixture = method_fixture("M18.a")
    attempts = fixture.input["G"]
    hits = torch.tensor([[1.0] * hit + [0.0] * (attempts - hit) for hit in fixture.input["hits"]])
    found = find_pivots(hits, threshold=fixture.input["tau"])
    assert found.mean.tolist() == fixture.expect["mu"]
    assert found.variance.tolist() == pytest.approx(fixture.expect["var"])
    assert found.is_pivot.tolist() == fixture.expect["pivot"]
    # The turn that is kept is the one whose outcome has the highest entropy.
    chance = found.mean.clamp(1e-12, 1 - 1e-12)
    entropy = -(chance * chance.log() + (1 - chance) * (1 - chance).log())
    assert int(entropy.argmax()) == found.is_pivot.tolist().index(True)

    # With a similarity as score, local attempts on a kept turn are paid by how near they came to the expert's action.
    expert = ["search(query='rain in May')", "stop()"]
    attempts_by_turn = [
        ["search(query='rain in May')", "stop()", "search(query='rain')", "browse('rain in May')"],
        ["stop()"] * 4,
    ]
    closeness = torch.tensor(
        [
            [step_similarity(attempt, action) for attempt in tried]
            for tried, action in zip(attempts_by_turn, expert, strict=True)
        ]
    )
    profile = find_pivots(closeness, threshold=0.9)
    assert profile.is_pivot.tolist() == [True, False]
    credit = center_within_group(credit_inputs(closeness[0].tolist())).advantages
    assert [attempts_by_turn[0][place] for place in credit.argsort(descending=True)] == [
        "search(query='rain in May')",
        "search(query='rain')",
        "browse('rain in May')",
        "stop()",
    ]
    assert float(credit[0]) > 0 > float(credit[1])


def test_pivots_need_two_scored_attempts_and_a_threshold():
    scores = torch.tensor([[1.0, 0.0], [1.0, float("nan")], [float("nan"), float("nan")], [0.3, 0.1 + 0.2]]).double()
    scores[3] = torch.tensor([0.3, 0.1 + 0.2], dtype=torch.float64)
    found = find_pivots(scores, threshold=0.9)
    assert found.is_pivot.tolist() == [True, False, False, False]
    assert found.variance[[1, 3]].tolist() == [0.0, 0.0]
    assert found.mean.isnan().tolist() == [False, False, True, False]
    # The threshold is strict.
    assert find_pivots(scores, threshold=0.5).is_pivot.tolist() == [False] * 4
    assert find_pivots(torch.zeros(2, 0), threshold=0.5).is_pivot.tolist() == [False, False]
    with pytest.raises(ObjectiveError, match="threshold has no default: PivotRL"):
        find_pivots(scores)
    with pytest.raises(ObjectiveError, match="outside"):
        find_pivots(scores * 2, threshold=0.5)
    with pytest.raises(ObjectiveError, match="turns, attempts"):
        find_pivots(scores[0], threshold=0.5)


@pytest.mark.row("S202")
def test_every_task_has_mean_zero_and_unit_deviation_whatever_the_scale_of_its_rewards():
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    for scale in (1.0, 1000.0, 1e-3):
        scaled = torch.cat([rewards[:3], rewards[3:] * scale]).tolist()
        inputs = credit_inputs(scaled, groups=[0] * 3 + [1] * 3, lengths=[1, 2, 3, 2, 1, 4])
        inputs = replace(inputs, source_index=torch.tensor([5, 5, 5, 2, 2, 2]))
        found = normalize_by_source(inputs, credit=center_within_group).advantages
        for of_source in (found[:6], found[6:]):
            assert float(of_source.mean()) == pytest.approx(0.0, abs=1e-12)
            assert float(of_source.std(correction=0)) == pytest.approx(1.0)


def test_sources_without_contrast_and_withheld_rows_count_nowhere():
    inputs = credit_inputs([1, 0, 1, 1, None, 4, 1], groups=[0, 0, 1, 1, 0, 2, 3], lengths=[1, 1, 2, 2, 3, 1, 1])
    inputs = replace(inputs, source_index=torch.tensor([0, 0, 1, 1, 0, 2, 0]))
    credit = normalize_by_source(inputs, credit=center_within_group)
    assert credit.advantages.tolist() == [1.0, -1.0] + [0.0] * 9
    assert credit.untrained == {**dict.fromkeys((2, 3, 5, 6), ZERO_CONTRAST), 4: UNSCORED}


def test_one_token_of_a_source_has_nothing_to_be_scaled_by():
    inputs = replace(credit_inputs([3.0, 1.0, -1.0]), source_index=torch.tensor([0, 1, 1]))
    given_credit = Credit(advantages=inputs.rewards, value_targets=None, untrained={})
    credit = normalize_by_source(inputs, credit=lambda _: given_credit)
    assert credit.advantages.tolist() == [0.0, 1.0, -1.0]
    assert credit.untrained == {0: ZERO_CONTRAST}
    empty = credit_inputs([])
    assert normalize_by_source(empty, credit=center_within_group).advantages.tolist() == []
