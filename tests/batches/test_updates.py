import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import (
    EpisodeMean,
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
)
from rollwright.algorithms.objective import Regularizer
from rollwright.algorithms.presets import rloo, score_function, supervised, with_regularizer
from rollwright.batches import BatchError, minibatches, plan_step, plan_updates
from tests.batches.episodes import DEMONSTRATION, ON_POLICY, POLICY, chat, episode, group
from tests.batches.strategies import denominators, steps
from tests.cases import case, method_fixture


def centered(weights):
    return score_function("centered", credit=center_within_group, weights=weights)


def planned(groups, weights, *, num_minibatches=1, **kwargs):
    objective = centered(weights)
    batch = plan_step(groups, step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    return plan_updates(batch, objective, first_update=1, num_minibatches=num_minibatches, **kwargs)


def responses(*lengths: int):
    """One group whose members answer in so many tokens."""
    return [
        group(*(episode(chat(("task", 1), ("policy", n)), slot=s, outcome=float(s)) for s, n in enumerate(lengths)))
    ]


def row_weights(plan) -> list[list[float]]:
    weights, offsets = plan.token_weights["policy_gradient"], plan.batch.row_offsets
    return [weights[a:b][plan.batch.action_mask[a:b]].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


@pytest.mark.row("S165")
def test_a_conversation_weighs_the_same_however_much_it_reads_and_writes():
    reads = chat(("task", 200), ("policy", 1), ("tool", 300), ("policy", 1))
    writes = chat(("task", 1), ("policy", 8))
    groups = [group(episode(reads, slot=0, outcome=1.0), episode(writes, slot=1, outcome=0.0))]
    (plan,) = planned(groups, EpisodeMean())
    assert row_weights(plan) == [[0.25] * 2, [0.0625] * 8]
    assert plan.token_weights["policy_gradient"][~plan.batch.action_mask].sum() == 0


# An independent reading of contracts section 4: a loop over tokens, no tensors.
def weights_by_hand(batch, rows, rule: object) -> dict[tuple[int, int], float]:
    """(row, token) to weight."""
    lengths, groups = {}, {}
    tokens = []
    for r in rows:
        start, stop = int(batch.row_offsets[r]), int(batch.row_offsets[r + 1])
        mine = [t for t in range(start, stop) if batch.action_mask[t]]
        if mine:
            lengths[r] = len(mine)
            groups.setdefault(batch.members[batch.rows[r].member].trajectory.group_id, []).append(r)
            tokens += [(r, t) for t in mine]
    n, b, p = sum(lengths.values()), len(lengths), len(groups)
    out = {}
    for r, t in tokens:
        g = groups[batch.members[batch.rows[r].member].trajectory.group_id]
        match rule:
            case TokenMean():
                out[r, t] = 1 / n
            case ResponseMean():
                out[r, t] = 1 / (b * lengths[r])
            case FixedLength(length=length):
                out[r, t] = 1 / (b * length)
            case SequenceSum():
                out[r, t] = 1 / b
            case PromptMean(within="response"):
                out[r, t] = 1 / (p * len(g) * lengths[r])
            case _:
                out[r, t] = 1 / (p * sum(lengths[x] for x in g))
    return out


@given(steps(), denominators, st.integers(1, 3))
def test_weights_are_those_of_a_loop_over_tokens(groups, rule, wanted):
    num = min(wanted, sum(len(g.members) for g in groups))
    for plan in planned(groups, rule, num_minibatches=num):
        due = weights_by_hand(plan.batch, plan.rows, rule)
        found = plan.token_weights["policy_gradient"]
        assert np.flatnonzero(found).tolist() == sorted(t for _, t in due)
        for (_, token), weight in due.items():
            assert found[token] == pytest.approx(weight, rel=1e-12)
        assert found.sum() == pytest.approx(plan.weight_sums["policy_gradient"], rel=1e-12, abs=1e-15)


@given(steps(), denominators)
def test_no_weight_stands_on_a_token_of_another_origin(groups, rule):
    (plan,) = planned(groups, rule)
    batch = plan.batch
    sampled = np.concatenate(
        [
            np.repeat((s.origin, s.policy) == ("policy", "policy"), s.num_tokens)
            for row in batch.rows
            for s in (batch.members[row.member].trajectory.segments[n] for n in row.segments)
        ]
    )
    assert not plan.token_weights["policy_gradient"][~sampled].any()


@given(steps(), st.integers(1, 4))
def test_every_row_is_in_exactly_one_minibatch(groups, wanted):
    batch = plan_step(groups, step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    num = min(wanted, len(batch.members))
    parts = minibatches(batch, num)
    assert len(parts) == num
    assert sorted(r for part in parts for r in part) == list(range(len(batch.rows)))
    for part in parts:
        members = {batch.rows[r].member for r in part}
        assert all(batch.rows[r].member not in members for r in range(len(batch.rows)) if r not in part)


@given(steps())
def test_groups_stay_whole_where_there_are_enough_of_them(groups):
    batch = plan_step(groups, step=1, objective=rloo(), eligible=POLICY, rules=ON_POLICY)
    parts = minibatches(batch, len(groups))
    held = [{int(batch.facts.group_index[r]) for r in part} for part in parts]
    assert sum(len(h) for h in held) == len(groups)


@pytest.mark.parametrize("name", ["M72.a", "M73.a", "M74.a", "M75.a"])
def test_worked_weights_of_two_responses(name):
    fixture = method_fixture(name)
    rules = {"M72": ResponseMean(), "M73": TokenMean(), "M74": FixedLength(length=8), "M75": SequenceSum()}
    (plan,) = planned(responses(*fixture.input["len"]), rules[fixture.method])
    found = row_weights(plan)
    for weights, weight, mass in zip(found, fixture.expect["token_weight"], fixture.expect["row_mass"], strict=True):
        assert weights == pytest.approx([weight] * len(weights), rel=fixture.tol)
        assert sum(weights) == pytest.approx(mass, rel=fixture.tol)


@pytest.mark.case("F07")
def test_response_mean_and_token_mean_differ():
    given_case = case("F07")
    losses = given_case.input["per_token_loss"]
    for rule in (TokenMean(), ResponseMean()):
        (plan,) = planned(responses(*given_case.input["lengths"]), rule)
        for found, due in zip(row_weights(plan), given_case.expect["per_token_weight"][rule.name], strict=True):
            assert found == pytest.approx(due, rel=1e-9)
        total = sum(
            w * x for ws, xs in zip(row_weights(plan), losses, strict=True) for w, x in zip(ws, xs, strict=True)
        )
        assert total == pytest.approx(given_case.expect[rule.name], rel=1e-9)


@pytest.mark.case("F09")
def test_observations_in_the_response_are_not_counted():
    given_case = case("F09")
    mask, losses = given_case.input["loss_mask"], given_case.input["per_token_loss"]
    path = chat(("task", 1), ("policy", 2), ("tool", 4), ("policy", 2))
    (plan,) = planned([group(episode(path))], TokenMean())
    weights = plan.token_weights["policy_gradient"][1:]
    assert (weights > 0).astype(int).tolist() == mask
    assert plan.denominators["policy_gradient"] == given_case.expect["denominator"]
    assert float(weights @ np.asarray(losses)) == pytest.approx(given_case.expect["loss"])


@pytest.mark.case("F06")
def test_the_fixed_length_is_the_recipes_constant_whatever_stands_in_the_row():
    given_case = case("F06")
    lengths = [sum(mask) for mask in given_case.input["mask"]]
    for observation in (0, 2, 4):
        members = [
            episode(chat(("task", 1), ("policy", n), ("tool", observation)), slot=s, outcome=float(s))
            for s, n in enumerate(lengths)
        ]
        (plan,) = planned([group(*members)], FixedLength(length=given_case.input["constant"]))
        assert sum(sum(w) for w in row_weights(plan)) == pytest.approx(given_case.expect["loss"])


@pytest.mark.row("S163")
def test_splitting_an_action_into_two_segments_leaves_token_mean_weights_unchanged():
    whole, (split,) = responses(2, 8), [group(
        episode(chat(("task", 1), ("policy", 2)), slot=0, outcome=0.0),
        episode(chat(("task", 1), ("policy", 3), ("policy", 5)), slot=1, outcome=1.0),
    )]  # fmt: skip
    (one,), (other,) = planned(whole, TokenMean()), planned([split], TokenMean())
    assert [sum(w) for w in row_weights(one)] == pytest.approx([0.2, 0.8])
    assert one.token_weights["policy_gradient"].tobytes() == other.token_weights["policy_gradient"].tobytes()
    assert one.batch.advantages.tobytes() == other.batch.advantages.tobytes()


@pytest.mark.case("F12")
def test_each_update_is_divided_by_its_own_count():
    given_case = case("F12")
    tokens, sums = given_case.input["tokens"], given_case.input["loss_sums"]
    size = given_case.input["grad_accum_steps"]
    losses = []
    for first in range(0, len(tokens), size):
        rows = range(first, min(first + size, len(tokens)))
        (plan,) = planned(responses(*(tokens[r] for r in rows)), TokenMean())
        losses.append(sum(sum(w) * sums[r] / tokens[r] for w, r in zip(row_weights(plan), rows, strict=True)))
    assert len(losses) == given_case.expect["optimizer_steps"]
    assert losses == pytest.approx(given_case.expect["window_losses"])


@pytest.mark.row("S165")
def test_a_conversation_with_a_long_input_and_a_short_output_weighs_as_much_as_any():
    shown = [chat(("task", 40), ("demonstration", 1)), chat(("task", 1), ("demonstration", 20))]
    groups = [
        group(episode(path, group=g, purpose="demonstration", outcome="demonstration")) for g, path in enumerate(shown)
    ]
    objective = supervised(weights=ResponseMean())
    batch = plan_step(groups, step=1, objective=objective, eligible=DEMONSTRATION, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    weights, middle = plan.token_weights["nll"], batch.row_offsets[1]
    assert [weights[:middle].sum(), weights[middle:].sum()] == pytest.approx([0.5, 0.5])


def test_epochs_repeat_the_minibatches_with_new_numbers():
    plans = planned(responses(2, 3, 4, 5), TokenMean(), num_minibatches=2, num_epochs=2)
    assert [p.update for p in plans] == [1, 2, 3, 4]
    assert [p.rows for p in plans] == [(0, 1), (2, 3), (0, 1), (2, 3)]
    assert plans[0].denominators == plans[2].denominators == {"policy_gradient": 5.0}


def test_nothing_trainable_sums_to_zero():
    (plan,) = planned([group(episode(chat(("task", 2), ("policy", 2)), outcome="grader_error"))], TokenMean())
    assert plan.weight_sums == {"policy_gradient": 0.0} and plan.denominators == {"policy_gradient": 0.0}
    assert not plan.token_weights["policy_gradient"].any()


def test_every_regularizer_has_weights_of_its_own():
    kl = Regularizer(component="kl", coefficient=0.1, per_token=lambda s: s.advantages, weights=SequenceSum())
    objective = with_regularizer(centered(TokenMean()), kl, needs=frozenset())
    batch = plan_step(responses(2, 8), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    assert plan.weight_sums == {"policy_gradient": 1.0, "kl": 5.0}
    assert plan.denominators == {"policy_gradient": 10.0, "kl": 2.0}
    assert plan.token_weights["kl"].sum() == pytest.approx(5.0)


def test_two_components_of_one_name_are_refused():
    twin = Regularizer(
        component="policy_gradient", coefficient=1.0, per_token=lambda s: s.advantages, weights=TokenMean()
    )
    objective = with_regularizer(centered(TokenMean()), twin, needs=frozenset())
    batch = plan_step(responses(1), step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    with pytest.raises(BatchError, match="each name once"):
        plan_updates(batch, objective, first_update=1, num_minibatches=1)


@pytest.mark.parametrize("num", [0, 3])
def test_more_minibatches_than_trajectories_are_refused(num):
    with pytest.raises(BatchError, match="at least one trajectory"):
        planned(responses(1, 2), TokenMean(), num_minibatches=num)


def test_kept_denominators_need_proximal_scores():
    with pytest.raises(BatchError, match="proximal"):
        planned(responses(1, 2), TokenMean(counting="kept"))
