from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from rollwright.algorithms import (
    bypassing_proximal,
    grpo,
    supervised,
)
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.diagnostics.token_values import Strata, quantiles_by_stratum
from rollwright.algorithms.presets import score_function
from rollwright.batches import BatchRules, batch_metrics, plan_step, plan_updates, update_metrics, with_score
from rollwright.record import Flag, TokenSpan
from tests.batches.episodes import (
    DEMONSTRATION,
    NOW,
    ON_POLICY,
    POLICY,
    Forest,
    chat,
    episode,
    group,
    outcome_of,
    verdict_on,
)
from tests.cases import case, method_fixture

OBJECTIVE = score_function("centered", credit=center_within_group, weights=TokenMean())


def numbers(groups, *, step=1, rules=ON_POLICY, **changes) -> dict[str, float | None]:
    batch = plan_step(groups, step=step, objective=OBJECTIVE, eligible=POLICY, rules=rules)
    (plan,) = plan_updates(batch, OBJECTIVE, first_update=1, num_minibatches=1)
    metrics = (
        *update_metrics(plan, outcome_of(plan, OBJECTIVE, **changes), OBJECTIVE, now=NOW),
        *batch_metrics(batch, success_at=1.0, now=NOW),
    )
    keys = [(m.update, m.name, tuple(sorted(m.labels.items()))) for m in metrics]
    assert len(set(keys)) == len(keys)
    return {
        " ".join([m.name, *(f"{k}={v}" for k, v in sorted(m.labels.items()) if k != "model")]): m.value for m in metrics
    }


def one_row(scores, *, tail=0):
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", len(scores), scores=scores)
    if tail:
        forest.add("tool", tail)
    return [group(episode(forest.segments))]


def test_worked_distances_between_behavior_and_current():
    fixture = method_fixture("M135.a")
    current = np.asarray([np.nan, *fixture.input["cur"]], np.float32)
    found = numbers(one_row(fixture.input["beh"]), proximal=current, current=current)
    assert found["policy/kl_beh"] == pytest.approx(fixture.expect["kl_beh_cur"], rel=1e-6)
    assert found["policy/kl_beh_k3"] == pytest.approx(fixture.expect["k3"], rel=1e-6)
    assert found["mismatch/logp_abs stat=mean"] == pytest.approx(fixture.expect["logp_absdiff_mean"], rel=1e-6)
    assert found["mismatch/logp_abs stat=max"] == pytest.approx(fixture.expect["logp_absdiff_max"], rel=1e-6)


@pytest.mark.case("F115")
def test_entropy_is_a_mean_over_trained_tokens_only():
    given_case = case("F115")
    groups = [
        group(
            episode(chat(("task", 1), ("policy", 2), ("tool", 2)), slot=0, outcome=1.0),
            episode(chat(("task", 1), ("policy", 1), ("tool", 3)), slot=1, outcome=0.0),
        )
    ]
    entropy = [np.nan, *given_case.input["entropy"][0], np.nan, *given_case.input["entropy"][1]]
    proximal = np.full(10, given_case.input["sentinel_logprob_at_padding"], np.float32)
    proximal[[1, 2, 6]] = [-0.1, -0.2, -0.1]
    current = proximal.copy()
    kl = given_case.input["kl"]
    current[[1, 2, 6]] -= np.asarray([kl[0][0], kl[0][1], kl[1][0]], np.float32)
    found = numbers(groups, entropy=np.asarray(entropy, np.float32), proximal=proximal, current=current)
    assert found["entropy/full"] == pytest.approx(given_case.expect["entropy_token_mean"])
    assert found["policy/kl_beh"] == pytest.approx(given_case.expect["kl_token_mean"], rel=1e-6)
    assert (found["entropy/sampled"] or 0) > 0


@pytest.mark.case("F28")
def test_placeholders_at_masked_positions_reach_no_ratio():
    given_case = case("F28")
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", 1, scores=[given_case.input["old_logprobs"][0]])
    forest.add("tool", 1)
    forest.add("policy", 1, scores=[given_case.input["old_logprobs"][2]])
    new = np.asarray([1.0, *given_case.input["new_logprobs"]], np.float32)
    found = numbers([group(episode(forest.segments))], proximal=new, current=new)
    assert found["is/max"] == given_case.expect["mean_ratio"]
    assert found["mismatch/logp_abs stat=max"] == given_case.expect["max_ratio_deviation"]


@pytest.mark.case("F44")
def test_clip_fractions_count_trained_tokens_whose_clip_acts():
    given_case = case("F44")
    ratios, advantages = given_case.input["ratios"], given_case.input["advantages"]
    low, high = (1 - given_case.input["eps"][0], 1 + given_case.input["eps"][1])
    flags = [
        Flag.CLIPPED_HIGH if r > high and a > 0 else Flag.CLIPPED_LOW if r < low and a < 0 else 0
        for r, a in zip(ratios, advantages, strict=True)
    ]
    found = numbers(one_row([-1.0] * 5, tail=1), flags=np.asarray([0, *flags], np.uint16))
    assert found["policy/clip_frac"] == given_case.expect["clip_fraction"]
    assert found["policy/clip_frac side=high"] == pytest.approx(0.2)


def test_a_metric_without_items_is_undefined():
    found = numbers([group(episode(chat(("task", 2)), outcome="timeout"))])
    assert found["entropy/full"] is None and found["policy/kl_beh"] is None and found["stale/lag stat=max"] is None
    assert found["weight_sum component=policy_gradient"] == 0
    assert found["mask/trained_tokens"] == 0 and found["data/withheld_rows reason=unscored"] == 1


def test_worked_lags_of_a_row():
    fixture = method_fixture("M107.a")
    forest = Forest()
    forest.add("task", 1)
    for version in fixture.input["token_versions"]:
        forest.add("policy", 1, version=version)
    step = fixture.input["learner_version"] + 1
    found = numbers([group(episode(forest.segments))], step=step, rules=BatchRules(max_lag=5))
    assert found["stale/lag stat=max"] == fixture.expect["lag_max"]
    assert found["stale/lag stat=mean"] == pytest.approx(fixture.expect["lag_mean"])
    assert found["stale/num_versions"] == fixture.expect["n_versions"]


def test_sums_and_denominators_come_with_their_component():
    members = [episode(chat(("task", 1), ("policy", n)), slot=s, outcome=float(s)) for s, n in enumerate([2, 8])]
    found = numbers([group(*members)])
    assert found["weight_sum component=policy_gradient"] == 1
    assert found["denominator component=policy_gradient"] == 10
    assert found["mask/observation_grad"] == 0 and found["reward/zero_var_frac"] == 0
    assert found["data/coef_mass source=arithmetic"] == 1
    assert found["policy/mask_frac"] == 0 and found["is/ess_frac"] == pytest.approx(1)


@pytest.mark.row("S281")
@pytest.mark.parametrize("unit", ["trajectory", "segment"])
def test_tokens_beyond_the_age_have_mask_0_while_outcomes_count_and_their_share_is_reported_by_source(unit):
    def aged(*versions, **kwargs):
        forest = Forest()
        forest.add("task", 1)
        for version in versions:
            forest.add("policy", 2, version=version)
        return episode(forest.segments, **kwargs)

    groups = [
        group(aged(9, 9, outcome=1.0), aged(5, 5, slot=1, outcome=0.0), aged(9, 9, slot=2, outcome=0.0)),
        group(aged(9, 9, group=1, outcome=1.0, source="sums"), aged(9, 9, group=1, slot=1, outcome=0.0, source="sums")),
    ]
    rules = BatchRules(max_lag=2, stale_unit=unit)
    batch = plan_step(groups, step=11, objective=OBJECTIVE, eligible=POLICY, rules=rules)
    assert batch.action_mask.reshape(5, 5)[:, 1:].all(axis=1).tolist() == [True, False, True, True, True]
    assert batch.advantages.reshape(5, 5)[[0, 2], 1] == pytest.approx([2 / 3, -1 / 3])
    found = numbers(groups, step=11, rules=rules)
    assert found["stale/dropped source=arithmetic"] == pytest.approx(1 / 3)
    assert found["stale/dropped source=sums"] == 0


def spans(*parts):
    """Action types of a segment, as (kind, tokens)."""
    ends = np.cumsum([0, *(tokens for _, tokens in parts)]).tolist()
    kinds = [kind for kind, _ in parts]
    return tuple(
        TokenSpan(kind=kind, token_start=start, token_end=end)
        for kind, start, end in zip(kinds, ends[:-1], ends[1:], strict=True)
    )


def two_sources():
    """Rows of 3 and 1 trained tokens, of two sources and two ages, one up and one down."""
    first, second = Forest(), Forest()
    first.add("task", 1)
    first.add("policy", 3, version=9, scores=[-1.0, -2.0, -3.0], spans=spans(("reasoning", 2), ("tool_call", 1)))
    second.add("task", 1)
    second.add("policy", 1, version=6, scores=[-1.0])
    return [
        group(
            episode(first.segments, outcome=1.0, source="code"),
            episode(second.segments, slot=1, outcome=0.0, source="math"),
        )
    ]


def test_update_metrics_are_repeated_for_every_stratum_that_is_not_the_whole():
    moved = np.asarray([np.nan, -1.5, -2.0, -3.0, np.nan, -2.0], np.float32)
    found = numbers(two_sources(), step=10, rules=BatchRules(max_lag=9), proximal=moved, current=moved)
    assert found["policy/kl_beh"] == pytest.approx((0.5 + 1.0) / 4)
    assert found["policy/kl_beh source=code"] == pytest.approx(0.5 / 3)
    assert found["policy/kl_beh source=math"] == pytest.approx(1.0)
    assert found["policy/kl_beh advantage=positive"] == pytest.approx(0.5 / 3)
    assert found["policy/kl_beh advantage=negative"] == pytest.approx(1.0)
    assert found["policy/kl_beh action=reasoning"] == pytest.approx(0.25)
    assert found["policy/kl_beh action=tool_call"] == 0.0
    assert found["policy/kl_beh action=other"] == pytest.approx(1.0)
    assert found["policy/kl_beh lag=0"] == pytest.approx(0.5 / 3)
    assert found["policy/kl_beh lag=3-4"] == pytest.approx(1.0)
    assert found["entropy/full lag=0"] == 0.5
    # Both rows are short, which says nothing new; neither does what is not defined.
    assert not [name for name in found if "length=" in name or name.startswith("policy/kl_ref ")]


def test_rows_are_told_apart_by_their_number_of_trained_tokens():
    members = [episode(chat(("task", 1), ("policy", n)), slot=s, outcome=float(s)) for s, n in enumerate([128, 129])]
    found = numbers([group(*members)])
    assert found["entropy/sampled length=1-128"] == pytest.approx(0.1 * 129 / 2)
    assert found["entropy/sampled length=129-512"] == pytest.approx(0.1 * 130 / 2)


def test_nothing_was_sampled_in_a_demonstration():
    batch = plan_step(
        [group(episode(chat(("task", 1), ("demonstration", 2)), purpose="demonstration", outcome="demonstration"))],
        step=1,
        objective=supervised(),
        eligible=DEMONSTRATION,
        rules=ON_POLICY,
    )
    (plan,) = plan_updates(batch, supervised(), first_update=1, num_minibatches=1)
    found = {
        (m.name, *m.labels.values()): m.value
        for m in update_metrics(plan, outcome_of(plan, supervised()), supervised(), now=NOW)
    }
    assert found["entropy/sampled", "policy"] == 1.0
    assert found["policy/kl_beh", "policy"] is None and found["is/ess_frac", "policy"] is None
    assert not [key for key in found if "unsampled" in key]


@pytest.mark.parametrize("proximal", [None, np.asarray([np.nan, -1.0, -1.0, -1.0, -1.0], np.float32)])
def test_both_clip_fractions_are_written_and_what_was_held_is_counted(proximal):
    current = np.asarray([np.nan, -0.5, -1.5, -1.0, -31.0], np.float32)
    changes = {"proximal": proximal, "current": current}
    objective = bypassing_proximal(grpo())
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", 4, scores=[-1.0] * 4)
    batch = plan_step([group(episode(forest.segments))], step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    flags = np.asarray([0, Flag.CLIPPED_HIGH, 0, 0, 0], np.uint16)
    reference = np.asarray([np.nan, -0.5, -1.5, -1.0, -1.0], np.float32)
    outcome = outcome_of(plan, objective, flags=flags, reference=reference, **changes)
    found = {m.name: m.value for m in update_metrics(plan, outcome, objective, now=NOW) if len(m.labels) == 1}
    assert found["policy/clip_frac"] == 0.25
    assert found["policy/clip_frac_two_sided"] == 0.75
    assert found["mask/ratio_clamped"] == 1.0
    assert found["mask/k3_clamped"] == 1.0


def test_a_bound_that_has_moved_since_is_taken_as_the_update_had_it():
    objective = bypassing_proximal(grpo())
    batch = plan_step(one_row([-1.0, -1.0]), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    current = np.asarray([np.nan, -0.7, -0.7], np.float32)
    for high, share in ((1.2, 1.0), (1.4, 0.0)):
        outcome = outcome_of(plan, objective, current=current, coefficients={"surrogate.high": high})
        found = {m.name: m.value for m in update_metrics(plan, outcome, objective, now=NOW) if len(m.labels) == 1}
        assert found["policy/clip_frac_two_sided"] == share


def test_groups_without_contrast_are_split_by_what_they_all_got():
    fixture = method_fixture("M135.c")
    groups = [
        group(
            *(
                episode(chat(("task", 1), ("policy", 1)), group=g, slot=s, outcome=float(r))
                for s, r in enumerate(rewards)
            )
        )
        for g, rewards in enumerate(fixture.input["group_R"])
    ]
    found = numbers(groups)
    assert found["reward/zero_var_frac"] == pytest.approx(fixture.expect["frac_zero_variance"])
    assert found["reward/all_right"] == pytest.approx(fixture.expect["frac_all_right"])
    assert found["reward/all_wrong"] == pytest.approx(fixture.expect["frac_all_wrong"])


def test_how_well_a_critic_predicts_is_measured_where_there_is_one():
    fixture = method_fixture("M135.b")
    batch = plan_step(one_row([-1.0] * 3), step=1, objective=OBJECTIVE, eligible=POLICY, rules=ON_POLICY)
    nan = np.nan
    critic = with_score(batch, "predicted", np.asarray([nan, *fixture.input["V"]], np.float32))
    critic = replace(critic, value_targets=np.asarray([nan, *fixture.input["return"]]))
    metrics = {m.name: m.value for m in batch_metrics(critic, success_at=1.0, now=NOW)}
    assert metrics["value/explained_var"] == pytest.approx(fixture.expect["explained_variance"], rel=1e-6)
    assert "value/explained_var" not in {m.name for m in batch_metrics(batch, success_at=1.0, now=NOW)}


def test_entropy_divergence_and_tails_are_told_apart_by_outcome_and_by_difficulty():
    easy = [episode(chat(("task", 1), ("policy", 2)), slot=slot, outcome=1.0) for slot in range(2)]
    hard = [
        episode(chat(("task", 1), ("policy", 2)), group=1, slot=slot, outcome=float(slot == 0)) for slot in range(2)
    ]
    scores = np.linspace(-2.0, -0.1, 12).astype(np.float32)
    found = numbers([group(*easy), group(*hard)], current=scores, entropy=-scores)
    trained = [1, 2, 4, 5, 7, 8, 10, 11]
    assert found["entropy/sampled outcome=wrong"] == pytest.approx(-float(scores[[10, 11]].mean()))
    assert found["entropy/full difficulty=1"] == pytest.approx(-float(scores[[1, 2, 4, 5]].mean()))
    assert found["entropy/full difficulty=(0.25,0.5]"] == pytest.approx(-float(scores[[7, 8, 10, 11]].mean()))
    assert found["entropy/full"] == pytest.approx(-float(scores[trained].mean()))
    assert found["is/quantiles difficulty=1 quantile=0.5"] == pytest.approx(found["is/max difficulty=1"])


def test_quantiles_of_a_stratum_are_those_of_its_tokens_alone():
    values = torch.tensor([5.0, 1.0, torch.nan, 3.0, 2.0, 4.0], dtype=torch.float64)
    part = Strata(label="source", names=("a", "b", "c"), index=torch.tensor([0, 1, 1, 0, 1, 0]))
    found = {
        (n.labels["source"], n.labels["quantile"]): n.value for n in quantiles_by_stratum("is/quantiles", values, part)
    }
    for name, own in {"a": [5.0, 3.0, 4.0], "b": [1.0, 2.0]}.items():
        whole = torch.tensor(own).sort().values
        for level in (0.5, 0.9, 0.95, 0.99):
            assert found[name, str(level)] == float(whole[min(len(own) - 1, int(level * len(own)))])
    assert not [key for key in found if key[0] == "c"]


def test_rows_are_counted_by_temperature_and_those_without_one_stand_out():
    batch = plan_step(
        [group(episode(chat(("task", 1), ("policy", 2)), slot=0, outcome=1.0))],
        step=1,
        objective=OBJECTIVE,
        eligible=POLICY,
        rules=ON_POLICY,
    )
    (drawn,) = set(batch.temperature[batch.action_mask].tolist())
    by_name = {(m.name, m.labels.get("bucket")): m.value for m in batch_metrics(batch, success_at=1.0, now=NOW)}
    assert by_name["ptgs/temperature", f"{drawn:g}"] == 1.0
    assert by_name["ptgs/fallback_rows", None] == 0.0
    lost = replace(batch, temperature=np.full_like(batch.temperature, np.nan))
    by_name = {(m.name, m.labels.get("bucket")): m.value for m in batch_metrics(lost, success_at=1.0, now=NOW)}
    assert by_name["ptgs/fallback_rows", None] == 1.0


def test_a_reward_behind_what_the_world_said_counts_as_moved():
    rewarded = {number: moved_of(number) for number in (1, 2)}
    assert rewarded == {1: 0.0, 2: 1.0}, "segment 1 is the policy's, segment 2 a tool's"


def moved_of(segment: int) -> float | None:
    member = episode(chat(("task", 1), ("policy", 2), ("tool", 2)), slot=0, outcome=1.0)
    paid = verdict_on(member.trajectory_id, segment, 0.5, scope="turn")
    return numbers([group(replace(member, verdicts=(*member.verdicts, paid)))])["mask/rewards_moved"]


def test_the_correlation_of_probabilities_is_pearsons():
    behavior, proximal = [-1.0, -0.5, -2.0, -0.1], np.array([np.nan, -1.1, -0.4, -2.2, -0.3], np.float32)
    found = numbers(one_row(behavior), proximal=proximal, current=proximal)
    due = np.asarray(pearsonr(np.exp(np.array(behavior)), np.exp(proximal[1:])))[0]
    assert found["mismatch/prob_corr"] == pytest.approx(float(due), rel=1e-5)
