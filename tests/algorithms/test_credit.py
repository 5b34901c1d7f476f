"""Credit within groups: worked numbers, edge rules, and what must hold for any rewards."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import (
    ObjectiveError,
    TokenMean,
    center_within_group,
    check_objective,
    group_diagnostics,
    group_statistics,
    imitate,
    leave_one_out,
    return_to_go,
    score_function,
    standardize_within_group,
)
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.moved_rewards import move_to_actions
from tests.algorithms.pieces import credit_inputs
from tests.cases import case, method_fixture, method_fixtures

ESTIMATORS = {
    "centered": center_within_group,
    "standardized": standardize_within_group,
    "leave_one_out": leave_one_out,
}
estimators = pytest.mark.parametrize("estimate", ESTIMATORS.values(), ids=ESTIMATORS.keys())

attempts = st.lists(
    st.tuples(st.floats(-10, 10, width=32) | st.none(), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12
)


def rows_of(drawn):
    rewards, groups, lengths = zip(*drawn, strict=True)
    return credit_inputs(rewards, groups=groups, lengths=lengths)


def per_row(credit, inputs):
    """The one advantage of each row that has tokens, None where it has none."""
    offsets = inputs.row_offsets.tolist()
    found = []
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        values = credit.advantages[start:end]
        assert (values == values[:1]).all()
        found.append(float(values[0]) if end > start else None)
    return found


@pytest.mark.parametrize("fixture", [method_fixture("M03.a"), method_fixture("M03.b")], ids=lambda f: f.id)
def test_leave_one_out_matches_the_worked_numbers(fixture):
    rewards = fixture.input["R"]
    found = leave_one_out(credit_inputs(rewards)).advantages
    assert found.tolist() == pytest.approx(fixture.expect["A"], abs=fixture.tol)
    if "group_mean_A" in fixture.expect:
        centered = center_within_group(credit_inputs(rewards)).advantages
        assert centered.tolist() == pytest.approx(fixture.expect["group_mean_A"], abs=fixture.tol)
        assert (centered / found).tolist() == pytest.approx([fixture.expect["ratio"]] * len(rewards))


def test_a_group_of_one_has_no_baseline():
    fixture = method_fixture("M03.c")
    inputs = credit_inputs(fixture.input["R"])
    credit = leave_one_out(inputs)
    assert credit.advantages.tolist() == fixture.expect["A"]
    assert credit.untrained == {0: ZERO_CONTRAST}
    assert group_statistics(inputs).has_no_baseline.tolist() == [fixture.expect["flag"] == "no_baseline"]


@pytest.mark.parametrize("fixture", method_fixtures("M04"), ids=lambda f: f.id)
def test_standardized_credit_matches_the_worked_numbers(fixture):
    inputs = credit_inputs(fixture.input["R"])
    credit = standardize_within_group(inputs, ddof=fixture.input["ddof"], eps=fixture.input["eps"])
    assert credit.advantages.tolist() == pytest.approx(fixture.expect["A"], abs=fixture.tol)
    is_level = fixture.expect.get("zero_variance", False)
    assert group_statistics(inputs).has_zero_variance.all().item() is is_level
    assert set(credit.untrained.values()) == ({ZERO_CONTRAST} if is_level else set())


def test_centered_credit_matches_the_worked_numbers():
    fixture = method_fixture("M05.a")
    found = center_within_group(credit_inputs(fixture.input["R"])).advantages
    assert found.tolist() == pytest.approx(fixture.expect["A"], abs=fixture.tol)


def test_an_unscored_attempt_leaves_the_baseline():
    fixture = method_fixture("M106.a")
    inputs = credit_inputs(fixture.input["R"])
    credit = center_within_group(inputs)
    assert credit.advantages.tolist() == pytest.approx(fixture.expect["A"], abs=fixture.tol)
    assert credit.untrained == {2: UNSCORED}
    assert int(group_statistics(inputs).is_scored.sum()) == fixture.expect["valid"]


@pytest.mark.row("S158")
def test_group_standardization_matches_the_survey_under_both_conventions():
    """The survey's fixtures: [1,0,0,1] and [1,0,0,0] with population and sample std, 1 of 16, and no contrast."""

    def found(rewards, ddof):
        return standardize_within_group(credit_inputs(rewards), ddof=ddof, eps=0.0).advantages.tolist()

    assert found([1, 0, 0, 1], 0) == pytest.approx([1, -1, -1, 1])
    assert found([1, 0, 0, 1], 1) == pytest.approx([0.866, -0.866, -0.866, 0.866], abs=5e-4)
    assert found([1, 0, 0, 0], 0) == pytest.approx([1.732, -0.577, -0.577, -0.577], abs=5e-4)
    assert found([1, *[0] * 15], 0) == pytest.approx([3.873, *[-0.258] * 15], abs=5e-4)
    for level in (0.0, 1.0):
        inputs = credit_inputs([level] * 4)
        credit = standardize_within_group(inputs, ddof=0, eps=0.0)
        assert credit.advantages.tolist() == [0.0] * 4
        assert set(credit.untrained.values()) == {ZERO_CONTRAST}


@pytest.mark.row("S157")
@pytest.mark.case("F37")
def test_leave_one_out_is_a_scaled_distance_from_the_mean():
    given_case = case("F37")
    inputs = credit_inputs(given_case.input["rewards"])
    found, centered = leave_one_out(inputs).advantages, center_within_group(inputs).advantages
    size = len(inputs.rewards)
    assert found.tolist() == pytest.approx(given_case.expect["advantages"], abs=1e-9)
    assert centered.tolist() == pytest.approx(given_case.expect["wrong_plain_centred"], abs=1e-9)
    assert (found - centered * size / (size - 1)).abs().max() < 1e-15
    assert abs(float(found.sum())) < 1e-12


@pytest.mark.case("F31")
@estimators
def test_a_singleton_gets_zero_under_every_estimator(estimate):
    given_case = case("F31").input
    names = given_case["group_ids"]
    inputs = credit_inputs(given_case["rewards"], groups=[names.index(name) for name in names])
    credit = estimate(inputs)
    assert credit.advantages[2] == 0.0
    assert credit.advantages.isfinite().all()
    assert credit.untrained == {2: ZERO_CONTRAST}
    # A batch of singletons takes the same path as a singleton among others.
    alone = estimate(credit_inputs([0.7]))
    assert alone.advantages.tolist() == [0.0]
    # A run of nothing but singletons is refused before it starts, and one singleton is counted.
    with pytest.raises(ObjectiveError, match="a group of at least 2"):
        check_objective(score_function("alone", credit=estimate, weights=TokenMean()), group_size=1)
    counted = {one.name: one.value for one in group_diagnostics(inputs, success_at=1.0)}
    assert counted["reward/no_baseline_frac"] == 0.5


@pytest.mark.case("F32")
@pytest.mark.parametrize("eps", case("F32").input["eps"])
def test_one_reward_level_gives_exactly_zero_for_any_epsilon(eps):
    groups = case("F32").input["groups"]
    # The third group as sums of reward parts, which differ in the last bit.
    groups = [*groups, [0.1 + 0.2, 0.3, 0.2 + 0.1, 0.15 + 0.15]]
    assert len(set(groups[-1])) > 1
    rewards = [reward for group in groups for reward in group]
    inputs = credit_inputs(rewards, groups=[g for g, group in enumerate(groups) for _ in group])
    for credit in (
        standardize_within_group(inputs, eps=eps),
        standardize_within_group(inputs, eps=eps, ddof=0),
        center_within_group(inputs),
        leave_one_out(inputs),
    ):
        assert credit.advantages.tolist() == [0.0] * len(rewards)
        assert set(credit.untrained) == set(range(len(rewards)))
    assert group_statistics(inputs).has_zero_variance.all()


@pytest.mark.case("F34")
def test_the_std_convention_is_an_option_with_two_named_values():
    given_case = case("F34")
    inputs = credit_inputs(given_case.input["rewards"])
    sample = standardize_within_group(inputs, ddof=1, eps=0.0).advantages
    population = standardize_within_group(inputs, ddof=0, eps=0.0).advantages
    assert sample.tolist() == pytest.approx(given_case.expect["sample_std_n_minus_1"], abs=1e-9)
    assert population.tolist() == pytest.approx(given_case.expect["population_std_n"], abs=1e-9)
    assert (population / sample).tolist() == pytest.approx([given_case.expect["ratio"]] * 4)
    with pytest.raises(ObjectiveError, match="ddof is 0 or 1"):
        standardize_within_group(inputs, ddof=2)


@pytest.mark.case("F36")
@estimators
def test_one_scored_attempt_among_unscored_ones_gives_no_nan(estimate):
    rewards = [float(reward) for reward in case("F36").input["rewards"]]
    inputs = credit_inputs(rewards)
    credit = estimate(inputs)
    assert credit.advantages.tolist() == [0.0] * 8
    counted = {one.name: one.value for one in group_diagnostics(inputs, success_at=1.0)}
    assert counted["reward/no_baseline_frac"] == 1.0
    assert credit.untrained == {**dict.fromkeys(range(7), UNSCORED), 7: ZERO_CONTRAST}


@pytest.mark.case("F39")
def test_groups_are_dispatches_not_tasks():
    given_case = case("F39")
    groups = [0] * 4
    for index, members in enumerate(given_case.expect["groups"]):
        for member in members:
            groups[member] = index
    credit = center_within_group(credit_inputs(given_case.input["rewards"], groups=groups))
    assert credit.advantages.tolist() == given_case.expect["advantages_mean_centred"]


@pytest.mark.parametrize("fixture", method_fixtures("M01"), ids=lambda f: f.id)
def test_return_to_go_matches_the_worked_numbers(fixture):
    given_input = fixture.input
    # A reward on an observation slot stands on the last action token before it.
    acts = [place for place, is_action in enumerate(given_input["mask"]) if is_action]
    rewards, mask = torch.tensor(given_input["r"]), torch.tensor(given_input["mask"]) == 1
    moved = move_to_actions(rewards, mask, torch.tensor([0, len(rewards)])).step_rewards
    inputs = credit_inputs([0.0], lengths=[len(acts)], step_rewards=moved.tolist())
    credit = return_to_go(inputs, discount=given_input["gamma"], baseline=given_input["baseline"])
    assert credit.advantages.tolist() == pytest.approx([fixture.expect["A"][act] for act in acts], abs=fixture.tol)


def test_the_outcome_stands_on_the_last_action_token_of_its_row():
    inputs = credit_inputs([1.0, 2.0, None], lengths=[3, 0, 2], step_rewards=[0, 0.5, 0, 0, 0])
    credit = return_to_go(inputs, discount=0.5)
    assert credit.advantages.tolist() == [0.5 * 0.5 + 0.25, 0.5 + 0.5, 1.0, 0.0, 0.0]
    assert credit.untrained == {2: UNSCORED}


@pytest.mark.case("F55")
def test_the_outcome_is_not_lost_behind_an_observation():
    given_case = case("F55")
    acts = [place for place, is_action in enumerate(given_case.input["mask"]) if is_action]
    inputs = credit_inputs([given_case.input["outcome_reward"]], lengths=[len(acts)])
    assert acts[-1] == given_case.expect["reward_position"]
    for discount in given_case.input["gammas"]:
        found = return_to_go(inputs, discount=discount).advantages
        due = given_case.expect[f"advantages_gamma_{discount:.0f}"]
        assert found.tolist() == [due[act] for act in acts]


def test_imitation_needs_no_verdict():
    credit = imitate(credit_inputs([None, 1.0], lengths=[2, 1]))
    assert credit.advantages.tolist() == [1.0, 1.0, 1.0]
    assert credit.untrained == {}


def test_an_episode_counts_once_however_many_rows_it_has():
    one_row = center_within_group(credit_inputs([1.0, 0.0, 0.0]))
    many_rows = center_within_group(credit_inputs([1.0, 0.0, 0.0, 0.0, 0.0], episodes=[0, 1, 1, 1, 2]))
    assert many_rows.advantages[0] == one_row.advantages[0]
    for eps in (0.0, 1e-6):
        narrow = standardize_within_group(credit_inputs([1.0, 0.0, 0.0]), eps=eps).advantages
        wide = standardize_within_group(credit_inputs([1.0, 0.0, 0.0, 0.0], episodes=[0, 1, 1, 2]), eps=eps).advantages
        assert wide.tolist() == pytest.approx([*narrow[:2].tolist(), *narrow[1:].tolist()], abs=1e-12)


def test_leaves_of_a_fork_are_judged_against_the_other_episodes():
    inputs = credit_inputs([1.0, 0.0, 0.25], episodes=[0, 0, 1])
    assert leave_one_out(inputs).advantages.tolist() == pytest.approx([1.25, -0.75, -0.25])


def test_an_infinite_reward_is_refused():
    with pytest.raises(ObjectiveError, match="NaN where unscored"):
        center_within_group(credit_inputs([1.0, float("inf")]))


@estimators
@given(drawn=attempts)
def test_advantages_sum_to_zero_in_every_group(estimate, drawn):
    inputs = rows_of([(reward, group, 1) for reward, group, _ in drawn])
    found = estimate(inputs).advantages
    for group in inputs.group_index.unique():
        assert abs(float(found[inputs.group_index == group].sum())) < 1e-6


@estimators
@given(drawn=attempts, shift=st.integers(-8, 8))
def test_a_constant_added_to_all_rewards_changes_nothing(estimate, drawn, shift):
    moved = [(None if reward is None else reward + shift, group, length) for reward, group, length in drawn]
    before, after = estimate(rows_of(drawn)), estimate(rows_of(moved))
    spread = group_statistics(rows_of(drawn)).squares
    # A spread near the test for one level may fall on either side of it once the rewards are larger.
    if ((spread == 0) | (spread > 1e-9)).all():
        assert torch.allclose(before.advantages, after.advantages, atol=1e-6, rtol=1e-6)
        assert before.untrained == after.untrained


@estimators
@given(drawn=attempts, data=st.data())
def test_order_and_names_of_groups_do_not_matter(estimate, drawn, data):
    order = data.draw(st.permutations(range(len(drawn))))
    straight = per_row(estimate(rows_of(drawn)), rows_of(drawn))
    shuffled_rows = [(drawn[i][0], 100 - 7 * drawn[i][1], drawn[i][2]) for i in order]
    shuffled = per_row(estimate(rows_of(shuffled_rows)), rows_of(shuffled_rows))
    for place, row in enumerate(order):
        assert shuffled[place] == pytest.approx(straight[row], abs=1e-9)


@estimators
@given(drawn=attempts)
def test_every_row_without_advantage_has_a_reason_and_nothing_is_nan(estimate, drawn):
    inputs = rows_of(drawn)
    credit = estimate(inputs)
    assert credit.advantages.isfinite().all()
    for row, value in enumerate(per_row(credit, inputs)):
        assert value in (0.0, None) or row not in credit.untrained
        assert (inputs.rewards[row].isnan().item()) == (credit.untrained.get(row) == UNSCORED)


def test_rewards_that_differ_by_rounding_alone_are_one_level_however_large_they_are():
    # 1e6·(0.1 + 0.2) and 1e6·0.3 differ in the last bits; that is no contrast, and dividing by it would make one.
    level = [1e6 * (0.1 + 0.2), 1e6 * 0.3, 1e6 * 0.3, 1e6 * (0.1 + 0.2)]
    assert len(set(level)) == 2
    for credit in (center_within_group, leave_one_out, standardize_within_group):
        found = credit(credit_inputs(level))
        assert not found.advantages.any()
        assert set(found.untrained.values()) == {"zero_contrast"}
