"""What an agent's episodes are to a step: each sampled token an action once, whatever became of the agent's history."""

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.presets import score_function
from rollwright.batches import plan_step
from rollwright.record import Group, ScoredTrajectory, branches
from tests.batches.episodes import ON_POLICY, POLICY
from tests.rollout.gateway.living import letters, live_all, scripted, slots
from tests.rollout.gateway.test_history import conversing, said, user


def test_every_sampled_token_is_an_action_of_one_row(renderer):
    texts = iter(["One.", "Two.", "Three.", "Four.", "Five."] * 2)
    engine = scripted(lambda request: letters(renderer, next(texts)))
    first = [user("a")]
    agent = conversing(
        first,
        [*first, said("One."), user("b")],
        [*first, said("One."), user("b")],
        [user("So far: One."), said("One."), user("c")],
        [*first, said("No."), user("d")],
    )
    one, two = (live_all(renderer, agent, engine, specs=[spec])[0] for spec in slots(2))
    members = tuple(
        ScoredTrajectory(
            trajectory=trajectory,
            verdicts=(),
            outcome=reward,
            reward_rule="r",
            reward_components=(),
            verifying_s=0.0,
        )
        for trajectory, reward in ((one, 1.0), (two, 0.0))
    )
    group = Group(group_id=7, task=one.task, size=2, members=members)
    objective = score_function("centered", credit=center_within_group, weights=TokenMean())
    batch = plan_step([group], step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    assert len(batch.rows) == len(branches(one.segments)) + len(branches(two.segments)) == 8
    assert int(batch.action_mask.sum()) == one.num_action_tokens + two.num_action_tokens
    owned = [(row.member, segment) for row in batch.rows for segment in row.owns]
    sampled = [(m, s.segment) for m, t in enumerate((one, two)) for s in t.segments if s.origin == "policy"]
    assert sorted(owned) == sorted(sampled)
    assert (batch.advantages[batch.action_mask] != 0).all()
