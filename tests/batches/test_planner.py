from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.truncation import exclude_truncated, mask_truncated, punish_truncated
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.presets import rloo, score_function, supervised
from rollwright.batches import BatchError, BatchRules, SegmentScores, plan_step, plan_updates, with_score
from rollwright.record import Sampling, TerminalReason
from tests.batches.episodes import (
    DEMONSTRATION,
    ON_POLICY,
    POLICY,
    Forest,
    chat,
    episode,
    group,
    verdict_on,
)
from tests.batches.strategies import steps
from tests.cases import case, method_fixture


def centered(credit=center_within_group):
    return score_function("centered", credit=credit, weights=TokenMean())


def plan(groups, *, step=1, objective=None, eligible=POLICY, rules=ON_POLICY, scores=()):
    return plan_step(
        groups, step=step, objective=objective or centered(), eligible=eligible, rules=rules, scores=scores
    )


def answer(version=0, tokens=2):
    return chat(("task", 1), ("policy", tokens), version=version)


def row_advantages(batch) -> list[float | None]:
    """The advantage of each row, None where it is withheld."""
    starts = batch.row_offsets[:-1]
    return [
        None if row.withheld else float(batch.advantages[start + 1])
        for row, start in zip(batch.rows, starts, strict=True)
    ]


# ------------------------------------------------------------------------------------------------- order and layout


@given(steps(), st.randoms(use_true_random=False))
def test_the_order_of_groups_changes_nothing(groups, random):
    shuffled = list(groups)
    random.shuffle(shuffled)
    one, other = plan(groups), plan(shuffled)
    assert [m.trajectory_id for m in one.members] == [m.trajectory_id for m in other.members]
    for name in ("row_offsets", "token_ids", "segment_ids", "acts", "action_mask", "advantages", "policy_versions"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@given(steps())
def test_rows_are_sorted_and_hold_the_tokens_of_their_path(groups):
    batch = plan(groups)
    keys = []
    for index, row in enumerate(batch.rows):
        t = batch.members[row.member].trajectory
        keys.append((t.group_id, t.slot, t.attempt, row.segments[-1]))
        here = slice(batch.row_offsets[index], batch.row_offsets[index + 1])
        path = [t.segments[s] for s in row.segments]
        assert batch.token_ids[here].tolist() == [i for s in path for i in s.token_ids.tolist()]
    assert keys == sorted(keys)


@given(steps())
def test_every_eligible_segment_is_owned_by_exactly_one_row(groups):
    batch = plan(groups)
    owned = Counter((row.member, s) for row in batch.rows for s in row.owns)
    due = {
        (index, s.segment)
        for index, member in enumerate(batch.members)
        for s in member.trajectory.segments
        if (s.origin, s.policy) in POLICY
    }
    assert owned == Counter(due)


@given(steps())
def test_each_trained_token_stands_once(groups):
    batch = plan(groups)
    rows = np.repeat(np.arange(len(batch.rows)), np.diff(batch.row_offsets))
    offsets = np.arange(len(batch.token_ids)) - batch.row_offsets[rows]
    places = Counter(
        (batch.rows[r].member, int(s), int(o))
        for r, s, o in zip(
            rows[batch.action_mask], batch.segment_ids[batch.action_mask], offsets[batch.action_mask], strict=True
        )
    )
    assert not places or max(places.values()) == 1


def test_behavior_versions_and_temperature_come_from_the_segments():
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 2, version=3, sampling=Sampling(temperature=0.5), scores=[-1.0, -2.0])
    forest.add("tool", 1)
    forest.add("policy", 1, version=4, scores=[-3.0])
    batch = plan([group(episode(forest.segments))], step=5, rules=BatchRules(max_lag=1))
    assert batch.policy_versions.tolist() == [-1, -1, 3, 3, -1, 4]
    assert batch.temperature.tolist() == [1, 1, 0.5, 0.5, 1, 1]
    assert batch.behavior.tolist()[2:4] == [-1, -2] and batch.behavior[5] == -3
    assert np.isnan(batch.behavior[[0, 1, 4]]).all()
    assert batch.rows[0].lag == 1


@pytest.mark.case("F24")
def test_entry_t_of_every_stream_is_about_token_t():
    given_case = case("F24")
    scores = given_case.input["behaviour_logprobs_by_token"]
    forest = Forest()
    forest.add("task", [0, 1])
    forest.add("policy", [2, 3], scores=[scores["c"], scores["d"]])
    batch = plan([group(episode(forest.segments))])
    aligned = given_case.expect["aligned_logprobs_by_token"]
    assert batch.action_mask.astype(int).tolist() == given_case.input["token_mask"]
    assert batch.acts.astype(int).tolist() == given_case.input["token_mask"]
    model = [np.nan, *given_case.input["model_logprobs_next_token"]]
    assert model[1:] == aligned[1:]
    ratios = np.exp(np.asarray(model)[batch.acts] - batch.behavior[batch.acts])
    assert ratios.tolist() == [given_case.expect["ratio_at_c"], given_case.expect["ratio_at_d"]]


@pytest.mark.case("F75")
def test_each_token_carries_the_version_that_sampled_it():
    given_case = case("F75")
    forest = Forest()
    forest.add("task", 1)
    for version, start, stop in given_case.expect["span_form"]:
        forest.add("policy", stop - start, version=version)
    batch = plan([group(episode(forest.segments))], step=9, rules=BatchRules(max_lag=1))
    assert batch.policy_versions[1:].tolist() == given_case.expect["token_versions"]
    assert batch.rows[0].lag == 9 - 1 - given_case.expect["oldest"]


# ------------------------------------------------------------------------------------------------- groups and rewards


@pytest.mark.case("F39")
def test_groups_are_dispatches_not_tasks():
    given_case = case("F39")
    rewards = given_case.input["rewards"]
    groups = [
        group(*(episode(answer(), group=g, slot=s, outcome=float(rewards[2 * g + s])) for s in (0, 1))) for g in (0, 1)
    ]
    batch = plan(groups)
    assert row_advantages(batch) == given_case.expect["advantages_mean_centred"]


def test_rows_of_a_group_without_contrast_stay():
    batch = plan([group(*(episode(answer(), slot=s) for s in (0, 1)))])
    assert [row.withheld for row in batch.rows] == [None, None]
    assert batch.untrained == {0: "zero_contrast", 1: "zero_contrast"}
    assert batch.action_mask.sum() == 4 and not batch.advantages.any()


def test_an_unscored_member_is_withheld_and_is_in_no_baseline():
    members = [episode(answer(), slot=s, outcome=o) for s, o in enumerate([1.0, 0.0, "grader_error"])]
    batch = plan([group(*members)])
    assert row_advantages(batch) == [0.5, -0.5, None]
    assert batch.rows[2].withheld == "unscored" and batch.untrained[2] == "unscored"
    assert not batch.action_mask[batch.row_offsets[2] :].any()


def test_a_shared_segment_takes_the_mean_of_its_copies_and_is_trained_in_the_first():
    forest = Forest()
    forest.add("task", 1)
    shared = forest.add("policy", 2)
    left = forest.add("policy", 1, after=shared)
    right = forest.add("policy", 3, after=shared, context=1)
    name = "t000000-00-0"
    forked = episode(forest.segments, outcome=0.5, verdicts=[verdict_on(name, left, 1.0), verdict_on(name, right, 0.0)])
    sibling = episode(answer(), slot=1, outcome=0.0)
    batch = plan([group(forked, sibling)])
    # The forked episode counts once, as the mean 0.5 of its leaves: the group's mean is 0.25.
    assert batch.advantages[: batch.row_offsets[2]].tolist() == pytest.approx(
        [0, 0.25, 0.25, 0.75, 0, 0.25, 0.25, -0.25, -0.25, -0.25]
    )
    assert batch.action_mask[: batch.row_offsets[2]].astype(int).tolist() == [0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert [row.owns for row in batch.rows[:2]] == [(shared, left), (right,)]


def test_a_shared_segment_moves_to_the_leaf_that_was_scored():
    forest = Forest()
    forest.add("task", 1)
    shared = forest.add("policy", 2)
    left = forest.add("policy", 1, after=shared)
    right = forest.add("policy", 1, after=shared, context=1)
    name = "t000000-00-0"
    forked = episode(
        forest.segments, outcome=1.0, verdicts=[verdict_on(name, left, "timeout"), verdict_on(name, right, 1.0)]
    )
    batch = plan([group(forked, episode(answer(), slot=1, outcome=0.0))])
    assert batch.rows[0].withheld == "unscored"
    assert [row.owns for row in batch.rows[:2]] == [(left,), (shared, right)]
    assert batch.action_mask[:8].astype(int).tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert batch.advantages[:8].tolist() == [0, 0, 0, 0, 0, 0.5, 0.5, 0.5]


def test_turn_rewards_stand_on_the_last_action_token_of_their_turn():
    path = chat(("task", 1), ("policy", 2), ("tool", 2), ("policy", 1), ("environment", 1))
    name = "t000000-00-0"
    paid = verdict_on(name, 1, 0.25, scope="turn", verifier="environment")
    late = verdict_on(name, 4, 1.0, scope="turn", verifier="environment")
    batch = plan([group(episode(path, turn_rewards=[paid], verdicts=[paid, late]))])
    assert batch.facts.step_rewards.tolist() == [0, 0, 0.25, 0, 0, 1.0, 0]


def test_a_reward_before_any_action_moves_to_the_first():
    path = chat(("task", 2), ("policy", 2))
    paid = verdict_on("t000000-00-0", 0, 0.5, scope="turn")
    batch = plan([group(episode(path, turn_rewards=[paid]))])
    assert batch.facts.step_rewards.tolist() == [0, 0, 0.5, 0]


def test_actions_from_equal_states_of_a_group_share_a_state_index():
    def path(*states):
        forest = Forest()
        forest.add("task", 1)
        for state in states:
            forest.add("policy", 1)
            forest.add("tool", 1, state_hash=state)
        forest.add("policy", 1)
        return forest.segments

    members = [
        episode(path("a", "b"), slot=0, initial_state_hash="s"),
        episode(path("b"), slot=1, initial_state_hash="s"),
    ]
    batch = plan([group(*members)])
    state = batch.facts.state_index[batch.acts].tolist()
    start, a, b = state[0], state[1], state[2]
    assert len({start, a, b}) == 3 and -1 not in state
    assert state[3:] == [start, b]


@pytest.mark.parametrize("treatment", ["negative", "mask", "exclude"])
def test_truncated_rows_under_each_treatment(treatment):
    expect = method_fixture("M105.a").expect
    stages = {"negative": punish_truncated, "mask": mask_truncated, "exclude": exclude_truncated}
    names = {"negative": "A_negative", "mask": "A_mask_in_baseline", "exclude": "A_excluded"}
    ends = [TerminalReason.MODEL_END, TerminalReason.MODEL_END, TerminalReason.TOKEN_LIMIT]
    members = [episode(answer(), slot=s, outcome=o, reason=ends[s]) for s, o in enumerate([1.0, 0.0, 0.0])]
    batch = plan([group(*members)], objective=centered(partial(stages[treatment], credit=center_within_group)))
    is_withheld = treatment != "negative"
    assert batch.rows[2].withheld == ("truncated" if is_withheld else None)
    found = [a or 0.0 for a in row_advantages(batch)]
    assert found == pytest.approx(expect[names[treatment]])
    assert batch.action_mask[batch.row_offsets[2] :].any() != is_withheld


# ------------------------------------------------------------------------------------------------- staleness


@pytest.mark.case("F76")
def test_a_lag_equal_to_the_bound_is_inside_and_the_oldest_token_decides():
    given_case = case("F76")
    members = []
    for slot, sample in enumerate(given_case.input["samples"]):
        forest = Forest()
        forest.add("task", 1)
        for version in sample["versions"]:
            forest.add("policy", 1, version=version)
        members.append(episode(forest.segments, slot=slot, outcome=float(slot)))
    step = given_case.input["trainer_version_at_use"] + 1
    batch = plan([group(*members)], step=step, rules=BatchRules(max_lag=given_case.input["max_staleness"]))
    assert [row.lag for row in batch.rows] == given_case.expect["staleness"]
    assert [row.withheld is None for row in batch.rows] == given_case.expect["admitted"]
    assert batch.rows[1].withheld == "stale"


@pytest.mark.case("F85")
@pytest.mark.parametrize(("stale_reward", "policy"), [("keep", "policy keep-reward"), ("drop", "policy drop-sample")])
def test_one_stale_sibling_does_not_remove_the_group(stale_reward, policy):
    given_case = case("F85")
    members = [
        episode(answer(version=m["oldest"]), slot=s, outcome=float(m["reward"]))
        for s, m in enumerate(given_case.input["group"])
    ]
    rules = BatchRules(max_lag=given_case.input["max_staleness"], stale_reward=stale_reward)
    batch = plan([group(*members)], step=given_case.input["trainer_version"] + 1, rules=rules)
    expect = [None if a == "not trained" else a for a in given_case.expect[policy]["advantages"]]
    found = row_advantages(batch)
    assert found[1] is None and batch.rows[1].withheld == "stale"
    assert [a for a in found if a is not None] == pytest.approx([a for a in expect if a is not None])


@pytest.mark.case("F82")
def test_stale_segments_leave_alone_and_leave_the_denominator():
    given_case = case("F82")
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", given_case.input["part1_tokens"], version=3)
    forest.add("policy", given_case.input["part2_tokens"], version=4)
    members = [episode(forest.segments, slot=0), episode(chat(("task", 1)), slot=1, outcome=0.0)]
    batch = plan([group(*members)], step=5, rules=BatchRules(max_lag=0, stale_unit="segment"))
    assert batch.action_mask[1:6].astype(int).tolist() == given_case.expect["loss_mask"]
    assert batch.rows[0].withheld is None and batch.rows[0].stale_segments == (1,)
    (update,) = plan_updates(batch, centered(), first_update=1, num_minibatches=1)
    assert update.denominators["policy_gradient"] == given_case.expect["denominator"]


@pytest.mark.parametrize(("unit", "expect"), [("trajectory", "keep_by_oldest"), ("segment", "token_mask_by_own")])
def test_staleness_by_oldest_token_and_by_own(unit, expect):
    fixture = method_fixture("M109.a")
    members = []
    for slot, versions in enumerate(fixture.input["token_versions"]):
        forest = Forest()
        forest.add("task", 1)
        for version in versions:
            forest.add("policy", 1, version=version)
        members.append(episode(forest.segments, slot=slot, outcome=float(slot)))
    rules = BatchRules(max_lag=fixture.input["max_lag"], stale_unit=unit)
    batch = plan([group(*members)], step=fixture.input["learner_version"] + 1, rules=rules)
    mask = batch.action_mask.reshape(3, 3)[:, 1:]
    if unit == "trajectory":
        assert [bool(m.all()) for m in mask] == fixture.expect[expect]
    else:
        assert mask.astype(int).tolist() == fixture.expect[expect]


def test_a_token_from_the_future_is_refused():
    with pytest.raises(BatchError, match="version 1 in step 1"):
        plan([group(episode(answer(version=1)))])


# ------------------------------------------------------------------------------------------------- refusals and extras


def test_demonstrations_are_trained_without_a_score():
    shown = chat(("task", 2), ("demonstration", 3), ("tool", 1), ("demonstration", 2))
    demo = episode(shown, purpose="demonstration", outcome="demonstration")
    batch = plan([group(demo)], objective=supervised(), eligible=DEMONSTRATION)
    assert batch.rows[0].withheld is None and batch.rows[0].lag == 0
    assert batch.action_mask.astype(int).tolist() == [0, 0, 1, 1, 1, 0, 1, 1]
    assert batch.advantages[batch.action_mask].tolist() == [1] * 5
    assert np.isnan(batch.behavior).all() and (batch.policy_versions == -1).all()


@pytest.mark.parametrize("reason", [r for r in TerminalReason if not r.is_trainable])
def test_what_is_never_trained_is_refused(reason):
    with pytest.raises(BatchError, match="never trained"):
        plan([group(episode(answer(), reason=reason))])


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (Sampling(top_p=0.9), "top_p=0.9"),
        (Sampling(top_k=5), "top_k=5"),
        (Sampling(min_p=0.1), "min_p=0.1"),
        (Sampling(temperature=0.0), "greedily"),
        (Sampling(processors=("no_repeat",)), "no_repeat"),
    ],
)
def test_tokens_that_no_learner_can_score_are_refused(sampling, words):
    forest = Forest()
    forest.add("task", 1)
    forest.add("policy", 2, sampling=sampling)
    with pytest.raises(BatchError, match=words):
        plan([group(episode(forest.segments))])


def test_a_group_twice_in_a_step_is_refused():
    with pytest.raises(BatchError, match="trains once"):
        plan([group(episode(answer())), group(episode(answer()))])


def test_scores_reach_credit_and_their_streams():
    seen = {}

    def credit(inputs):
        seen.update(teacher=inputs.logprobs["teacher"].tolist(), values=inputs.values)
        return center_within_group(inputs)

    name = "t000000-00-0"
    scores = [
        SegmentScores(trajectory_id=name, segment=1, name="teacher", values=np.asarray([-1, -2], np.float32)),
        SegmentScores(trajectory_id=name, segment=1, name="predicted", values=np.asarray([0.5, 0.25], np.float32)),
        SegmentScores(trajectory_id=name, segment=1, name="bootstrap", values=np.asarray([0.75], np.float32)),
    ]
    batch = plan([group(episode(answer()))], objective=centered(credit), scores=scores)
    assert seen["teacher"] == [-1, -2]
    assert seen["values"]["predicted"].tolist() == [0.5, 0.25] and seen["values"]["bootstrap"].tolist() == [0.75]
    assert batch.scores["teacher"].tolist()[1:] == [-1, -2] and np.isnan(batch.scores["teacher"][0])


def test_scores_of_unknown_segments_or_of_a_wrong_length_are_refused():
    for segment, length, words in ((7, 2, "not in the batch"), (1, 3, "one a token")):
        scores = [
            SegmentScores(
                trajectory_id="t000000-00-0", segment=segment, name="teacher", values=np.zeros(length, np.float32)
            )
        ]
        with pytest.raises(BatchError, match=words):
            plan([group(episode(answer()))], scores=scores)
    with pytest.raises(BatchError, match="3 tokens"):
        with_score(plan([group(episode(answer()))]), "proximal", np.zeros(2, np.float32))


def test_leave_one_out_of_a_whole_group():
    batch = plan([group(*(episode(answer(), slot=s, outcome=float(s == 0)) for s in range(3)))], objective=rloo())
    assert row_advantages(batch) == pytest.approx([1.0, -0.5, -0.5])
