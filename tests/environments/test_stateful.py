"""Episodes over a state of their own: the desk of an office and the counter of a bank."""

import asyncio
import json
import sqlite3

import pytest

from rollwright.environments import (
    Database,
    DialogueScenario,
    StatefulEnvironment,
    ToolLimits,
    WorkplaceDemonstrator,
    WorkplaceScenario,
)
from rollwright.record import Action, EnvironmentBrokenError, Task, ToolRequest
from rollwright.tasks import (
    AGENTS,
    DIALOGUE_SLICES,
    SplitSizes,
    Table,
    WorkplaceShares,
    bank_strata,
    read_tables,
    workplace_scope,
    workplace_strata,
)

OFFICE = workplace_strata(
    SplitSizes(train=40, held_out=8), scope=workplace_scope("full"), shares=WorkplaceShares(), seed=1
)
BANK = bank_strata(SplitSizes(train=20, held_out=5), slices=DIALOGUE_SLICES, seed=1)
DESK = OFFICE[0].train[0]
VISIT = BANK[0].train[0]
ENVIRONMENTS = {
    "workplace": (lambda: StatefulEnvironment(WorkplaceScenario()), DESK),
    "dialogue": (lambda: StatefulEnvironment(DialogueScenario()), VISIT),
}


@pytest.fixture(params=list(ENVIRONMENTS.values()), ids=list(ENVIRONMENTS))
def world(request):
    return request.param


def info_of(task):
    return json.loads(task.payload)["info"]


def books_of(task):
    return read_tables(info_of(task)["initial"])


def requests(task):
    """Calls that such a task can be asked with; some are mistakes."""
    if "bank.accounts" in books_of(task):
        facts = info_of(task)["script"]["facts"]
        own = {"account": int(facts["account"])}
        return [
            ("get_balance", own),
            ("identify", {**own, "pin": 1}),
            ("identify", {**own, "pin": int(facts["pin"])}),
            ("transfer", {**own, "target": int(facts["target"]), "amount": 5}),
        ]
    ticket = min(books_of(task)["support.tickets"].rows)
    return [("get_ticket", {"ticket": ticket}), ("close_ticket", {"ticket": 1}), ("decline", {"reason": "not_found"})]


async def call(episode, tool, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return await episode.call(ToolRequest(call_id="c0", tool=tool, arguments=text))


async def played(environment, task):
    """All that an episode says when it is played in a fixed way."""
    async with environment.open(task, seed=5) as episode:
        said = [await episode.begin()]
        for turn, (tool, arguments) in enumerate(requests(task)):
            result = await call(episode, tool, arguments)
            said += [result, await episode.step(Action(actor="agent", turn=turn, text="", calls=(result,)))]
        said.append(await episode.step(Action(actor="agent", turn=9, text="bye", calls=())))
        return [*said, dict(await episode.artifacts()), await episode.snapshot()]


def test_equal_seeds_and_actions_replay_exactly(world):
    make, task = world
    assert asyncio.run(played(make(), task)) == asyncio.run(played(make(), task))


def test_episodes_that_run_side_by_side_share_nothing(world):
    make, task = world

    async def scenario():
        environment = make()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(played(environment, task), name=f"episode {n}") for n in range(20)]
        return [one.result() for one in running]

    alone = asyncio.run(played(make(), task))
    assert all(one == alone for one in asyncio.run(scenario()))


def test_an_episode_goes_on_from_its_snapshot_as_if_never_left(world):
    make, task = world

    async def scenario():
        environment, asked = make(), requests(task)
        async with environment.open(task, seed=5) as episode:
            straight = await episode.begin()
            for turn, (tool, arguments) in enumerate(asked[:-1]):
                result = await call(episode, tool, arguments)
                straight = await episode.step(Action(actor="agent", turn=turn, text="", calls=(result,)))
            saved = await episode.snapshot()
            last = await call(episode, *asked[-1])
            left = await episode.artifacts()
        async with environment.open(task, seed=5, snapshot=saved) as episode:
            again = await episode.begin()
            assert again.observations[0].state_hash == straight.observations[0].state_hash
            assert again.observations[0].messages == ()
            assert await episode.snapshot() == saved
            assert await call(episode, *asked[-1]) == last
            assert await episode.artifacts() == left

    asyncio.run(scenario())


@pytest.mark.parametrize("saved", [b"", b"[]", b"{}", b"\xff", b'{"task_id":"x","seed":5,"state":{}}'])
def test_a_snapshot_of_something_else_is_refused(world, saved):
    make, task = world

    async def scenario():
        async with make().open(task, seed=5, snapshot=saved):
            raise AssertionError("it was opened")

    with pytest.raises(EnvironmentBrokenError, match="snapshot does not fit"):
        asyncio.run(scenario())


def test_a_task_of_something_else_is_the_environments_fault(world):
    make, _ = world
    payload = '{"answer":"1","info":{},"question":"q?"}'
    for broken in ("{}", payload):

        async def scenario(text=broken):
            async with make().open(Task(task_id="s/0", source="s", revision="r", split="train", payload=text), seed=0):
                raise AssertionError("it was opened")

        with pytest.raises(EnvironmentBrokenError, match="s/0"):
            asyncio.run(scenario())


def test_every_mistake_of_the_policy_is_text_that_it_can_read(world):
    make, task = world
    tool, arguments = requests(task)[0]
    name = next(iter(arguments))
    wrong = [
        ("rm", "{}", "invalid_call"),
        (tool, "{", "invalid_call"),
        (tool, {}, "invalid_call"),
        (tool, {name: True}, "invalid_call"),
        (tool, {name: 10**30}, "invalid_call"),
        (tool, {name: -(2**63)}, "invalid_call"),
        (tool, {name: 0}, "tool_error"),
        (tool, json.dumps({name: 1, "x": "y" * 4000}), "invalid_call"),
    ]

    async def scenario():
        environment = StatefulEnvironment(make()._scenario, limits=ToolLimits(calls=len(wrong)))
        async with environment.open(task, seed=0) as episode:
            await episode.begin()
            before = await episode.artifacts()
            for tool_name, given, status in wrong:
                result = await call(episode, tool_name, given)
                assert result.status == status and result.text.startswith("error: "), (tool_name, given, result)
            assert (await call(episode, tool, arguments)).status == "limit"
            assert await episode.artifacts() == before

    asyncio.run(scenario())


def test_a_turn_that_could_not_be_read_is_answered_and_a_turn_after_the_end_is_a_fault(world):
    make, task = world

    async def scenario():
        async with make().open(task, seed=0) as episode:
            await episode.begin()
            result = await episode.step(Action(actor="agent", turn=0, text="", calls=(), parse_error="no JSON"))
            assert result.observations[0].messages[0].text == "error: no JSON"
            await episode.step(Action(actor="agent", turn=1, text="bye", calls=()))
            await episode.step(Action(actor="agent", turn=2, text="", calls=()))

    with pytest.raises(EnvironmentBrokenError, match="after the episode had ended"):
        asyncio.run(scenario())


def test_leaving_the_episode_closes_its_database():
    async def scenario():
        environment = StatefulEnvironment(WorkplaceScenario())
        async with environment.open(DESK, seed=0) as episode:
            await episode.begin()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            await episode.artifacts()

    asyncio.run(scenario())


def test_two_paths_to_the_same_rows_have_one_state_hash_and_a_write_another():
    task = next(t for t in OFFICE[1].train if info_of(t)["family"] == "same_agent")
    plan = [(c["tool"], c["arguments"]) for c in info_of(task)["plan"]]

    async def hash_after(calls):
        async with StatefulEnvironment(WorkplaceScenario()).open(task, seed=0) as episode:
            await episode.begin()
            results = tuple([await call(episode, *one) for one in calls])
            (seen,) = (await episode.step(Action(actor="agent", turn=0, text="", calls=results))).observations
            return seen.state_hash

    looked, not_looked = asyncio.run(hash_after(plan)), asyncio.run(hash_after(plan[1:]))
    assert looked == not_looked != asyncio.run(hash_after(plan[:1]))
    other = next(agent for agent in AGENTS if agent != plan[1][1]["agent"])
    detour = [("assign_ticket", {**plan[1][1], "agent": other}), *plan[1:]]
    assert asyncio.run(hash_after(detour)) == looked


def test_statements_in_arguments_are_text_and_change_no_other_row():
    books = books_of(DESK)
    customer = min(books["sales.customers"].rows)
    hostile = "x'); DELETE FROM sales.orders; --"

    async def scenario():
        async with StatefulEnvironment(WorkplaceScenario()).open(DESK, seed=0) as episode:
            await episode.begin()
            assert (await call(episode, "set_address", {"customer": customer, "address": hostile})).status == "ok"
            assert (await call(episode, "find_customer", {"name": hostile})).status == "tool_error"
            lone = await call(episode, "get_item", '{"item": "\\ud800\\u0000"}')
            assert lone.status == "tool_error"
            return read_tables(json.loads((await episode.artifacts())["final_state.json"])["tables"])

    after = asyncio.run(scenario())
    assert after["sales.customers"].row(customer)["address"] == hostile
    assert after["sales.orders"] == books["sales.orders"]


def test_tools_say_in_typed_errors_why_they_refuse():
    books = books_of(DESK)
    orders = {row["status"]: row["id"] for row in (books["sales.orders"].row(k) for k in books["sales.orders"].rows)}
    event = books["calendar.events"].row(min(books["calendar.events"].rows))
    wrong = [
        ("get_order", {"order": 1}, "not_found: no order 1"),
        ("cancel_order", {"order": orders["shipped"]}, "not_allowed: order"),
        ("change_pieces", {"order": orders["open"], "pieces": 0}, "not_allowed: an order is of"),
        ("create_event", {"title": "x", "day": event["day"], "hour": event["hour"]}, "conflict: "),
        ("move_event", {"event": event["id"], "day": "monday", "hour": 3}, "not_allowed: an event begins"),
        ("restock", {"item": "moon", "pieces": 1}, "not_found: no item"),
        ("create_ticket", {"customer": 1, "subject": "x", "agent": "bo"}, "not_found: no customer"),
    ]

    async def scenario():
        async with StatefulEnvironment(WorkplaceScenario()).open(DESK, seed=0) as episode:
            await episode.begin()
            for tool, arguments, said in wrong:
                result = await call(episode, tool, arguments)
                assert (result.status, result.text.startswith(f"error: {said}")) == ("tool_error", True), result

    asyncio.run(scenario())


def test_a_database_holds_sections_apart_and_refuses_names_that_are_none():
    tables = {
        "sales.rows": Table(columns=("id", "x"), rows={1: (1, "a")}),
        "stock.rows": Table(columns=("id", "x"), rows={1: (1, "b")}),
    }
    database = Database(tables)
    try:
        database.change("sales.rows", 1, x="c")
        assert database.row("stock.rows", 1) == {"id": 1, "x": "b"}
        assert database.writes == (("sales.rows", 1),)
        assert database.tables()["sales.rows"].rows == {1: (1, "c")}
    finally:
        database.close()
    for name, column in (("rows", "x"), ("a.b; DROP", "x"), ("a.b", "x)"), ("main.rows", "x" * 99)):
        with pytest.raises(EnvironmentBrokenError, match="section.table"):
            Database({name: Table(columns=("id", column))})


def test_demonstrations_are_right_as_often_as_was_asked_for_and_the_same_for_one_seed():
    tasks = [task for stratum in OFFICE for task in stratum.train]
    half, whole = WorkplaceDemonstrator(right_share=0.5), WorkplaceDemonstrator(right_share=1.0)
    same = [half(task, seed) == whole(task, seed) for task in tasks for seed in range(5)]
    assert 0.4 < sum(same) / len(same) < 0.65
    assert half(tasks[0], 3) == half(tasks[0], 3)


def test_nothing_is_sent_before_the_owner_is_identified_and_pins_cannot_be_tried_out():
    facts = info_of(VISIT)["script"]["facts"]
    own, target = int(facts["account"]), int(facts["target"])

    async def scenario():
        async with StatefulEnvironment(DialogueScenario()).open(VISIT, seed=0) as episode:
            await episode.begin()
            send = {"account": own, "target": target, "amount": 5}
            assert "identify the owner" in (await call(episode, "transfer", send)).text
            for _ in range(3):
                assert (await call(episode, "identify", {"account": own, "pin": 1})).status == "tool_error"
            locked = await call(episode, "identify", {"account": own, "pin": int(facts["pin"])})
            assert "too many wrong tries" in locked.text

    asyncio.run(scenario())
