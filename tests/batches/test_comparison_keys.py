"""What a comparison group may be made of reaches credit from the record: task, role, parent."""

from functools import partial

from rollwright.algorithms import center_within_group
from rollwright.algorithms.credit.comparison import compare_within
from rollwright.batches import credit_inputs, lay_out
from tests.batches.episodes import ON_POLICY, Forest, chat, episode, group

BOTH = frozenset({("policy", "policy"), ("policy", "solver")})


def caller(slot: int, outcome: float, *, calls: int):
    """An agent that calls so many sub-agents, each in a context of its own."""
    forest = Forest()
    forest.add("task", 2)
    forest.add("policy", 2)
    for call in range(1, calls + 1):
        forest.add("task", 1, after=None, context=call, spawned_by=f"call{call}", actor="solver")
        forest.add("policy", 2, context=call, policy="solver", actor="solver")
    return episode(forest.segments, slot=slot, outcome=outcome)


def inputs_of(*groups):
    draft = lay_out(groups, step=1, eligible=BOTH, rules=ON_POLICY)
    return credit_inputs(draft, range(len(draft.rows)), draft.acts)


def test_roles_and_parents_tell_the_rows_of_sub_agents_apart():
    inputs = inputs_of(group(caller(0, 1.0, calls=2), caller(1, 0.0, calls=1)))
    role, parent = inputs.keys["role"].tolist(), inputs.keys["parent"].tolist()
    assert [role[0], role[3]] == [role[0]] * 2 and role[1] == role[2] == role[4] != role[0]
    # The callers have no parent and share it; each call is one of its own.
    assert parent[0] == parent[3] == -1 and len({parent[1], parent[2], parent[4], -1}) == 4
    assert len(set(inputs.keys["task"].tolist())) == 1


def test_a_task_is_compared_over_its_dispatches_where_a_recipe_says_so():
    first, second = (group(*(episode(chat(("task", 1), ("policy", 1)), group=n, slot=s, outcome=r)
                             for s, r in enumerate(rewards)))
                     for n, rewards in enumerate(([1.0, 1.0], [0.0, 0.0])))  # fmt: skip
    inputs = inputs_of(first, second)
    assert not center_within_group(inputs).advantages.any()
    by_task = partial(compare_within, credit=center_within_group, by=("task",))
    assert by_task(inputs).advantages.tolist() == [0.5, 0.5, -0.5, -0.5]


def test_numbers_of_keys_do_not_depend_on_what_else_is_in_the_batch():
    alone = inputs_of(group(caller(0, 1.0, calls=1)))
    among = inputs_of(group(caller(0, 1.0, calls=1), caller(1, 0.0, calls=2)))
    for name, numbers in alone.keys.items():
        assert numbers.tolist() == among.keys[name].tolist()[: len(numbers)]


def test_a_trajectory_that_came_from_another_has_it_as_parent():
    children = [
        episode(chat(("task", 1), ("policy", 1)), slot=slot, outcome=0.0, parent_trajectory_id="t000009-00-0")
        for slot in (0, 1)
    ]
    parents = inputs_of(group(*children)).keys["parent"].tolist()
    assert parents[0] == parents[1] != -1
