"""What becomes of an agent's history: known, rewritten, shortened, told again, told at once."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.record import TerminalReason, branches
from tests.rendering.tokenizers_for_tests import qwen3_renderer
from tests.rollout.gateway.living import (
    CHAT_TOOLS,
    WEATHER,
    call_of,
    check,
    context_of,
    letters,
    live,
    openai_client,
    scripted,
    turns_of,
)

SYSTEM = {"role": "system", "content": "Be brief."}


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def conversing(*conversations, tools=None):
    """An agent that sends these messages, one request after the other."""

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            for messages in conversations:
                more = {} if tools is None else {"tools": tools}
                await client.chat.completions.create(model="m", messages=messages, **more)

    return agent


def lived(renderer, texts, *conversations, **more):
    engine = scripted([letters(renderer, text) for text in texts])
    done = live(renderer, conversing(*conversations, **more), engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    check(done, engine)
    return done, engine


def policy(done):
    return [s for s in done.segments if s.origin == "policy"]


@pytest.mark.parametrize("sent_back", ["One.", " One.\n"])
def test_white_space_at_the_ends_of_a_turn_is_no_rewrite(renderer, sent_back):
    done, _ = lived(renderer, ["One.", "Two."], [user("a")], [user("a"), said(sent_back), user("b")])
    assert {s.context for s in done.segments} == {0}
    assert len(branches(done.segments)) == 1


def test_another_text_for_a_turn_is_the_agents_own_and_a_branch_behind_what_was_known(renderer):
    first = [SYSTEM, user("a")]
    second = [*first, said("One."), user("b")]
    edited = [*second, said("Two, and more."), user("c")]
    done, _ = lived(renderer, ["One.", "Two.", "Three."], first, second, edited)
    one, two, three = policy(done)
    # Behind the turn that is known, what the agent put in the next one's place is said to the policy, not by it.
    assert [s.context for s in (one, two, three)] == [0, 0, 1]
    path = context_of(done, three.segment)
    assert one.token_ids.tolist() == path[one.start : one.start + one.num_tokens]
    foreign = [s for s in done.segments if s.context == 1 and renderer.decode(s.token_ids) == "Two, and more."]
    assert [s.origin for s in foreign] == ["environment"]
    assert len(branches(done.segments)) == 2


def test_a_rewritten_first_turn_leaves_the_prompt_shared_by_no_branch_of_it(renderer):
    done, _ = lived(renderer, ["One.", "Two."], [user("a")], [user("a"), said("Eins."), user("b")])
    assert [s.context for s in policy(done)] == [0, 1]
    roots = [s for s in done.segments if s.parent is None]
    assert [s.context for s in roots] == [0, 1]


def test_compaction_begins_a_context_in_which_turns_that_are_kept_are_replayed_by_their_tokens(renderer):
    long = [SYSTEM, user("a"), said("One."), user("b"), said("Two."), user("c")]
    compact = [SYSTEM, user("So far: One."), said("Two."), user("d")]
    done, engine = lived(renderer, ["One.", "Two.", "Three.", "Four."], long[:2], long[:4], long, compact)
    one, two, three, four = policy(done)
    assert [s.context for s in (one, two, three, four)] == [0, 0, 0, 1]
    (copy,) = [s for s in done.segments if s.origin == "replayed"]
    assert copy.copied_from == two.segment and copy.token_ids.tolist() == two.token_ids.tolist()
    assert copy.behavior_logprobs is None and copy.context == 1
    last = engine.requests[-1].token_ids.tolist()
    assert last[copy.start : copy.start + copy.num_tokens] == two.token_ids.tolist()
    assert [s.origin for s in done.segments if s.parent is None and s.context == 1] == ["template"]
    origins = {s.origin for s in done.segments if s.context == 1}
    assert origins == {"template", "environment", "user", "replayed", "policy"}


def test_a_sub_agent_has_a_context_of_its_own_and_the_first_one_goes_on(renderer):
    done, _ = lived(
        renderer,
        ["One.", "Sub.", "Two."],
        [SYSTEM, user("a")],
        [{"role": "system", "content": "You are a critic."}, user("What of One?")],
        [SYSTEM, user("a"), said("One."), user("The critic says Sub.")],
    )
    assert [s.context for s in policy(done)] == [0, 1, 0]


def test_the_same_request_again_is_another_draw_at_the_same_place(renderer):
    done, engine = lived(renderer, ["One.", "Uno."], [SYSTEM, user("a")], [SYSTEM, user("a")])
    one, two = policy(done)
    assert one.parent == two.parent and [one.context, two.context] == [0, 1]
    assert [r.context for r in engine.requests] == [0, 1]
    assert len([s for s in done.segments if s.origin == "task"]) == 2


def test_each_of_two_answers_at_one_place_is_found_again_by_its_text(renderer):
    ask = [user("a")]
    done, _ = lived(renderer, ["One.", "Uno.", "More."], ask, ask, [*ask, said("Uno."), user("b")])
    _, two, three = policy(done)
    path = [s.segment for s in done.segments if s.context == 1]
    assert three.context == two.context == 1 and two.segment in path


def test_other_tools_are_another_context_and_keep_the_tokens(renderer):
    engine = scripted([letters(renderer, text) for text in ("One.", "Two.")])

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            await client.chat.completions.create(model="m", messages=[user("a")], tools=CHAT_TOOLS)
            other = [{"type": "function", "function": {**WEATHER, "name": "climate"}}]
            messages = [user("a"), said("One."), user("b")]
            await client.chat.completions.create(model="m", messages=messages, tools=other)

    done = live(renderer, agent, engine)
    one, two = policy(done)
    assert [one.context, two.context] == [0, 1]
    assert [s.copied_from for s in done.segments if s.origin == "replayed"] == [one.segment]
    assert engine.requests[1].token_ids.tolist() == context_of(done, two.segment)[: two.start]


def test_arguments_that_a_client_writes_again_are_the_same_call(renderer):
    engine = scripted([letters(renderer, "", [call_of("Rome")]), letters(renderer, "Fine.")])

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            messages = [user("a")]
            answer = await client.chat.completions.create(model="m", messages=messages, tools=CHAT_TOOLS)
            (call,) = answer.choices[0].message.tool_calls
            again = {"name": "weather", "arguments": '{"town" :"Rome"}'}
            messages += [
                {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": again}]},
                {"role": "tool", "tool_call_id": call.id, "content": "sun"},
            ]
            await client.chat.completions.create(model="m", messages=messages, tools=CHAT_TOOLS)

    done = live(renderer, agent, engine)
    assert {s.context for s in done.segments} == {0}
    assert [row.status for row in done.tool_calls] == ["ok"]


def test_a_template_that_strips_reasoning_gives_a_context_with_copies():
    renderer = qwen3_renderer()
    turns = [renderer.encode_turn("So.", reasoning="Hm."), renderer.encode_turn("Fine.")]
    engine = scripted([turn.tolist() for turn in turns])
    agent = conversing([user("a")], [user("a"), said("So."), user("b")])
    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert turns_of(done) == [turn.tolist() for turn in turns]
    assert [s.context for s in policy(done)] == [0, 1]
    copies = [s for s in done.segments if s.context == 1 and s.copied_from is not None]
    assert {s.origin for s in copies} == {"task", "replayed"}
    assert renderer.decode(next(s for s in copies if s.origin == "replayed").token_ids) == "So."


def test_requests_at_once_are_branches_and_none_waits_for_another(renderer):
    texts = {"left": "Links.", "right": "Rechts.", "on": "Weiter."}
    engine = scripted(
        lambda request: letters(renderer, next(t for k, t in texts.items() if k in renderer.decode(request.token_ids)))
    )

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:

            async def ask(messages):
                return await client.chat.completions.create(model="m", messages=messages)

            await ask([user("on")])
            before = [user("on"), said("Weiter.")]
            async with asyncio.TaskGroup() as group:
                for way in ("left", "right", "left"):
                    group.create_task(ask([*before, user(way)]))

    texts = {"left": "Links.", "right": "Rechts.", "on": "Weiter."}
    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert sorted(s.context for s in policy(done)) == [0, 0, 1, 2]
    check(done, engine)


def test_a_result_for_a_call_that_nobody_made_is_refused(renderer):
    engine = scripted([letters(renderer, "ok")])
    statuses = []

    async def agent(base_url, api_key, task):
        from openai import BadRequestError

        async with openai_client(base_url, api_key) as client:
            messages = [user("a"), {"role": "tool", "tool_call_id": "nobody", "content": "sun"}]
            with pytest.raises(BadRequestError, match="must be a response to a preceding message"):
                await client.chat.completions.create(model="m", messages=messages)
            statuses.append(400)
            await client.chat.completions.create(model="m", messages=messages[:1])

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END and statuses == [400]
    assert [s.context for s in policy(done)] == [0]


moves = st.lists(st.tuples(st.sampled_from(["on", "edit", "drop", "again"]), st.integers(0, 3)), max_size=6)


@settings(max_examples=12)
@given(moves)
def test_whatever_an_agent_does_to_its_history_each_turn_is_sampled_once_behind_what_the_engine_saw(renderer, moves):
    conversations, messages, number = [], [SYSTEM, user("q0")], 0
    for kind, at in moves:
        conversations.append(list(messages))
        messages = [*messages, said(f"t{number}"), user(f"q{number + 1}")]
        number += 1
        turns = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        chosen = turns[at % len(turns)]
        if kind == "edit":
            messages[chosen] = said(f"edited {number}")
        elif kind == "drop":
            del messages[chosen - 1 : chosen + 1]
        elif kind == "again":
            messages = conversations[-1]
    conversations.append(messages)
    done, engine = lived(renderer, [f"t{n}" for n in range(len(conversations))], *conversations)
    sampled = policy(done)
    assert len(sampled) == len(conversations)
    for request, segment in zip(engine.requests, sampled, strict=True):
        assert context_of(done, segment.segment)[: segment.start] == request.token_ids.tolist()
        assert request.context == segment.context
    assert len({(s.context, s.start) for s in sampled}) == len(sampled)
