"""How episodes end, whatever their agent does: always as a trajectory, with a reason of the closed list."""

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from openai import APIStatusError, BadRequestError

from rollwright.engines import Reply
from rollwright.record import TerminalReason
from rollwright.rollout import Interruption, Limits, submission_of
from rollwright.rollout.gateway import ExternalAgent, ProgramAgent
from tests.rollout.gateway.living import ROOM, letters, live, live_all, openai_client, scripted, slots

MESSAGES = [{"role": "user", "content": "Well?"}]


async def ask(base_url, api_key, messages=None, **more):
    async with openai_client(base_url, api_key) as client:
        return await client.chat.completions.create(model="m", messages=messages or MESSAGES, **more)


def slow(renderer, text="One. Two. Three."):
    """A turn that takes seconds."""
    return replace(letters(renderer, text), delay_s=0.5)


def report_of(done):
    return json.loads(done.artifacts["gateway.json"])


def test_an_agent_that_never_calls_took_no_turn(renderer):
    async def agent(base_url, api_key, task):
        return None

    done = live(renderer, agent, scripted([]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert done.failure_class == "infrastructure" and done.segments == ()
    assert done.failure_cause == "the agent took no turn: it ended"


@pytest.mark.parametrize("blames", ["infrastructure", "policy"])
def test_an_agent_that_raises_is_whose_doing_it_was_said_to_be(renderer, blames):
    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        raise KeyError("no answer in it")

    done = live(renderer, agent, scripted([letters(renderer, "ok")]), blames=blames)
    assert done.failure_cause == "agent test raised KeyError: 'no answer in it'"
    if blames == "policy":
        assert done.terminal_reason is TerminalReason.ENVIRONMENT_FAILURE and done.failure_class is None
    else:
        assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert done.num_turns == 1


def test_an_agent_that_asks_for_the_end_of_the_process_gets_its_own(renderer):
    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        raise SystemExit(3)

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert "gave up: SystemExit" in done.failure_cause


def test_calls_behind_the_end_are_refused_and_change_nothing(renderer):
    late = []

    async def use():
        from rollwright.rollout import SystemClock
        from rollwright.rollout.gateway import FunctionAgent, Gateway, GatewayEpisodes
        from tests.rollout.fakes import spec_of

        kept = {}

        async def agent(base_url, api_key, task):
            kept.update(base_url=base_url, api_key=api_key)
            await ask(base_url, api_key)

        engine = scripted([letters(renderer, "ok"), letters(renderer, "late")])
        async with Gateway.listening(renderer) as gateway:
            episodes = GatewayEpisodes(
                gateway=gateway,
                agent=FunctionAgent(function=agent, name="test"),
                engine=engine,
                renderer=renderer,
                clock=SystemClock(),
            )
            done = await episodes.run(spec_of(ROOM))
            for key in (kept["api_key"], "wrong"):
                with pytest.raises(APIStatusError) as caught:
                    await ask(kept["base_url"], key)
                late.append((caught.value.status_code, caught.value.code))
            with pytest.raises(APIStatusError) as caught:
                await ask(kept["base_url"].replace("t000007", "t000008"), kept["api_key"])
            late.append((caught.value.status_code, caught.value.code))
        return done, engine

    done, engine = asyncio.run(use())
    assert late == [(410, "episode_ended"), (401, "invalid_api_key"), (404, "episode_not_found")]
    assert done.num_turns == 1 and len(engine.requests) == 1


def test_turns_run_out(renderer):
    refused = []

    async def agent(base_url, api_key, task):
        for _ in range(3):
            try:
                await ask(base_url, api_key)
            except APIStatusError as error:
                refused.append(error.status_code)

    engine = scripted(lambda request: letters(renderer, "ok"))
    done = live(renderer, agent, engine, limits=replace(ROOM, turns=2))
    assert done.terminal_reason is TerminalReason.TURN_LIMIT and refused == [410]
    assert done.num_turns == 2


def test_tokens_run_out_and_the_cut_turn_is_still_told(renderer):
    told = []

    async def agent(base_url, api_key, task):
        told.append((await ask(base_url, api_key)).choices[0])
        told.append((await ask(base_url, api_key)).choices[0])

    engine = scripted(lambda request: letters(renderer, "12345678"))
    done = live(renderer, agent, engine, limits=replace(ROOM, episode_tokens=12))
    assert done.terminal_reason is TerminalReason.TOKEN_LIMIT, done.failure_cause
    assert [(c.message.content, c.finish_reason) for c in told] == [("12345678", "stop"), ("123", "length")]
    assert done.num_action_tokens == 12


def test_what_an_agent_allows_a_turn_is_no_end_of_its_episode(renderer):
    async def agent(base_url, api_key, task):
        first = await ask(base_url, api_key, max_tokens=3)
        assert first.choices[0].finish_reason == "length"
        messages = [*MESSAGES, {"role": "assistant", "content": first.choices[0].message.content}, *MESSAGES]
        await ask(base_url, api_key, messages)

    engine = scripted(lambda request: letters(renderer, "12345678"))
    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END and done.num_turns == 2
    assert {s.context for s in done.segments} == {0}


def test_a_context_that_is_too_long_is_the_apis_400_and_an_agent_may_shorten_it(renderer):
    codes = []

    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        with pytest.raises(BadRequestError, match="maximum context length is 120 tokens") as caught:
            await ask(base_url, api_key, [{"role": "user", "content": "q z " * 100}])
        codes.append(caught.value.code)
        await ask(base_url, api_key, [{"role": "user", "content": "short"}])

    engine = scripted(lambda request: letters(renderer, "ok"))
    limits = replace(ROOM, context_tokens=120)
    done = live(renderer, agent, engine, limits=limits)
    assert done.terminal_reason is TerminalReason.MODEL_END and codes == ["context_length_exceeded"]
    assert report_of(done)["refused"] == {"context_length_exceeded": 1}


@pytest.mark.parametrize("is_first", [True, False])
def test_an_agent_that_ends_by_a_context_that_is_too_long_ends_by_that_limit(renderer, is_first):
    async def agent(base_url, api_key, task):
        if not is_first:
            await ask(base_url, api_key)
        await ask(base_url, api_key, [{"role": "user", "content": "q z " * 100}])

    engine = scripted(lambda request: letters(renderer, "ok"))
    done = live(renderer, agent, engine, limits=replace(ROOM, context_tokens=120))
    assert done.terminal_reason is TerminalReason.CONTEXT_LIMIT and done.failure_class is None
    assert done.num_turns == (0 if is_first else 1)
    assert done.segments


def test_a_text_that_can_never_fit_is_refused_unread(renderer):
    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        with pytest.raises(BadRequestError, match="maximum context length"):
            await ask(base_url, api_key, [{"role": "user", "content": "x" * 2_000_000}])

    done = live(renderer, agent, scripted([letters(renderer, "ok")]))
    assert done.terminal_reason is TerminalReason.CONTEXT_LIMIT


@pytest.mark.parametrize("clock", ["limit", "failure"])
@pytest.mark.parametrize("is_asking", [True, False])
def test_an_agent_that_goes_on_too_long_is_ended_by_the_clock(renderer, clock, is_asking):
    left = []

    async def agent(base_url, api_key, task):
        try:
            await ask(base_url, api_key)
            await (ask(base_url, api_key) if is_asking else asyncio.sleep(60))
        finally:
            left.append(True)

    replies = [letters(renderer, "ok"), slow(renderer, "0123456789")]
    engine = scripted(replies)
    began = time.monotonic()
    done = live(renderer, agent, engine, limits=replace(ROOM, wall_clock_s=2.0, clock=clock))
    assert time.monotonic() - began < 20 and left == [True]
    due = TerminalReason.WALL_CLOCK_LIMIT if clock == "limit" else TerminalReason.INFRASTRUCTURE_FAILURE
    assert done.terminal_reason is due


@pytest.mark.parametrize("is_asking", [True, False])
def test_an_episode_is_ended_from_outside(renderer, is_asking):
    interruption = Interruption()

    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        async with asyncio.TaskGroup() as group:
            if is_asking:
                group.create_task(ask(base_url, api_key))
            await asyncio.sleep(0.2)
            await interruption.end(TerminalReason.SUPERSEDED)
            await asyncio.sleep(30)

    engine = scripted([letters(renderer, "ok"), slow(renderer)])
    (done,) = live_all(renderer, agent, engine, specs=slots(1), interruption=interruption)
    assert done.terminal_reason is TerminalReason.SUPERSEDED and done.failure_class == "abandoned"
    assert not interruption.requests


def test_a_lost_engine_fails_the_episode_and_is_a_500(renderer):
    statuses = []

    async def agent(base_url, api_key, task):
        with pytest.raises(APIStatusError) as caught:
            await ask(base_url, api_key)
        statuses.append(caught.value.status_code)
        await asyncio.sleep(30)

    reply = Reply(token_ids=letters(renderer, "A long one.").token_ids, lost_after=3)
    done = live(renderer, agent, scripted([reply]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE and statuses == [500]
    assert done.failure_cause.startswith("engine lost")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_leaves_has_its_turn_cancelled_and_asks_again_in_its_place(renderer, is_streamed):
    async def agent(base_url, api_key, task):
        headers = {"Authorization": f"Bearer {api_key}"}
        body = {"model": "m", "messages": MESSAGES, "stream": is_streamed}
        async with httpx.AsyncClient(headers=headers) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2.5):
                    async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
                        async for _ in response.aiter_bytes():
                            pass
        await asyncio.sleep(0.3)
        assert not engine._running
        await ask(base_url, api_key)

    engine = scripted([slow(renderer), letters(renderer, "ok")])
    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert done.num_turns == 1 and {s.context for s in done.segments} == {0}
    assert [r.context for r in engine.requests] == [0, 0]
    cancelled = report_of(done)["cancelled"]
    assert cancelled["turns"] == 1 and (cancelled["tokens"] > 0) is is_streamed


def test_an_agent_that_ends_while_its_own_request_is_in_flight_leaves_nothing_running(renderer):
    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        waiting = asyncio.get_running_loop().create_task(ask(base_url, api_key))
        await asyncio.sleep(0.2)
        kept.append(waiting)

    kept = []

    async def outer(base_url, api_key, task):
        await agent(base_url, api_key, task)
        (waiting,) = kept
        waiting.add_done_callback(lambda task: task.exception())

    engine = scripted([letters(renderer, "ok"), slow(renderer)])

    async def ended(base_url, api_key, task):
        await outer(base_url, api_key, task)

    async def run():
        from rollwright.rollout import SystemClock
        from rollwright.rollout.gateway import FunctionAgent, Gateway, GatewayEpisodes
        from tests.rollout.fakes import spec_of

        async with Gateway.listening(renderer) as gateway:
            episodes = GatewayEpisodes(
                gateway=gateway,
                agent=FunctionAgent(function=ended, name="test"),
                engine=engine,
                renderer=renderer,
                clock=SystemClock(),
            )
            done = await episodes.run(spec_of(ROOM))
            assert not engine._running
            with pytest.raises(APIStatusError) as caught:
                await kept[0]
            return done, caught.value.status_code

    done, status = asyncio.run(run())
    assert done.terminal_reason is TerminalReason.MODEL_END and done.num_turns == 1
    assert status in (410, 500)


# --------------------------------------------------------------------------------------------------------- programs

PROGRAM = """
import json, os, sys, urllib.request
task = json.load(sys.stdin)
def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {
        "authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))
answer = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {
    "model": "m", "messages": [{"role": "user", "content": task["payload"].get("question", "none")}]})
print(answer["choices"][0]["message"]["content"])
post(os.environ["ROLLWRIGHT_REWARD_URL"], {"reward": 0.75, "components": {"close": 0.75}})
"""


def program(source, *, end="", **more):
    return ProgramAgent(command=[sys.executable, "-c", source + end], name="program", **more)


def test_a_program_has_the_address_in_its_environment_and_the_task_on_its_input(renderer):
    engine = scripted([letters(renderer, "Hello.")])
    done = live(renderer, program(PROGRAM), engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert done.artifacts["stdout"] == b"Hello.\n"
    outcome = json.loads(done.artifacts["outcome.json"])
    assert outcome == {"reward": 0.75, "components": {"close": 0.75}, "is_over": True}
    assert done.environment == "program"


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("sys.exit(3)", "ended with status 3"),
        ("raise ValueError('bad answer')", "ended with status 1: ValueError: bad answer"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ],
)
def test_a_program_that_dies_is_a_failure_with_how(renderer, end, cause):
    done = live(renderer, program(PROGRAM, end=end), scripted([letters(renderer, "Hello.")]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert cause in done.failure_cause and done.num_turns == 1


def test_a_program_that_dies_in_its_own_request_has_the_turn_cancelled(renderer):
    source = PROGRAM.replace(
        "answer = post",
        "import threading, time\nthreading.Timer(0.5, lambda: os.kill(os.getpid(), 9)).start()\nanswer = post",
    )
    engine = scripted([slow(renderer)])
    done = live(renderer, program(source), engine)
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert "signal 9" in done.failure_cause and not engine._running
    assert report_of(done)["cancelled"]["turns"] == 1


def test_a_program_that_goes_on_too_long_is_ended_with_all_that_it_started(renderer, tmp_path):
    source = PROGRAM + (
        "import subprocess, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(60)"
    )
    limits = replace(ROOM, wall_clock_s=10.0, clock="limit")
    done = live(renderer, program(source), scripted([letters(renderer, "Hello.")]), limits=limits)
    assert done.terminal_reason is TerminalReason.WALL_CLOCK_LIMIT
    assert state_of(int((tmp_path / "pid").read_text())) in ("gone", "Z")


def state_of(pid):
    """Of a process, in the kernel's letter."""
    path = Path(f"/proc/{pid}/stat")
    return path.read_text().rpartition(")")[2].split()[0] if path.exists() else "gone"


def test_a_program_that_is_not_there_is_said(renderer):
    agent = ProgramAgent(command=["/no/such/agent"], name="none")
    done = live(renderer, agent, scripted([]))
    assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE
    assert "could not be started: FileNotFoundError" in done.failure_cause


# ---------------------------------------------------------------------------------------------- agents from elsewhere


@pytest.mark.parametrize("failure", [None, "my database is gone"])
def test_an_external_agent_is_told_where_and_says_when_it_is_done(renderer, failure):
    coming = []

    async def outside(address):
        headers = {"x-api-key": address.api_key}
        async with httpx.AsyncClient(headers=headers) as client:
            body = {"model": "m", "messages": MESSAGES}
            answer = (await client.post(f"{address.base_url}/chat/completions", json=body)).json()
            paid = {"reward": 1, "response_id": answer["id"], "name": "tidy"}
            assert (await client.post(f"{address.root}/reward", json=paid)).status_code == 200
            assert (await client.post(f"{address.base_url}/reward", json={**paid, "choice": 1})).status_code == 404
            await client.post(f"{address.root}/end", json={} if failure is None else {"failure": failure})

    async def announce(address, task):
        coming.append(asyncio.get_running_loop().create_task(outside(address)))

    done = live(renderer, ExternalAgent(announce=announce, name="outside"), scripted([letters(renderer, "ok")]))
    (paid,) = done.turn_rewards
    (turn,) = [s for s in done.segments if s.origin == "policy"]
    assert (paid.verifier, paid.outcome, paid.scope) == ("outside/tidy", 1.0, "turn")
    assert (paid.span.segment, paid.span.token_end) == (turn.segment, turn.num_tokens)
    if failure is None:
        assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    else:
        assert done.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE and failure in done.failure_cause


# ------------------------------------------------------------------------------------------------ rewards and verifiers


def test_a_number_that_a_function_returns_is_what_the_verifier_reported_reads(renderer):
    from rollwright.verifiers.reported import reported_verifier

    async def agent(base_url, api_key, task):
        await ask(base_url, api_key)
        return 0.5

    done = live(renderer, agent, scripted([letters(renderer, "The answer is 42.")]))
    submission = submission_of(done, renderer)
    assert [(p.kind, p.text) for p in submission.passages] == [("user", "Well?"), ("policy", "The answer is 42.")]
    (verdict,) = asyncio.run(reported_verifier().verify([submission]))
    assert verdict.outcome == 0.5


def test_what_an_agent_wants_of_sampling_is_overruled_and_reported(renderer):
    async def agent(base_url, api_key, task):
        await ask(base_url, api_key, temperature=0.0, top_p=0.5)

    engine = scripted([letters(renderer, "ok")])
    done = live(renderer, agent, engine)
    assert engine.requests[0].sampling.temperature == 1.0
    assert report_of(done)["overruled"] == {"temperature": 0.0, "top_p": 0.5}


def test_sixty_four_episodes_at_once_keep_apart(renderer):
    def reply(request):
        number = int(request.session.split("-")[1])
        return letters(renderer, f"{number} {len(request.token_ids)}")

    engine = scripted(reply)

    async def agent(base_url, api_key, task):
        messages = list(MESSAGES)
        async with openai_client(base_url, api_key) as client:
            for _ in range(3):
                answer = await client.chat.completions.create(model="m", messages=messages)
                messages += [answer.choices[0].message, *MESSAGES]

    done = live_all(renderer, agent, engine, specs=slots(64))
    assert {d.terminal_reason for d in done} == {TerminalReason.MODEL_END}
    for number, trajectory in enumerate(done):
        assert trajectory.slot == number and trajectory.num_turns == 3
        texts = [renderer.decode(s.token_ids[:-1]) for s in trajectory.segments if s.origin == "policy"]
        assert all(text.startswith(f"{number} ") for text in texts)
        assert {s.context for s in trajectory.segments} == {0}
    assert len(engine.released) == 64


def test_requests_in_flight_hold_their_tokens_and_a_further_one_is_asked_to_wait(renderer):
    statuses = []

    async def agent(base_url, api_key, task):
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(base_url, api_key, max_tokens=20))
            await asyncio.sleep(0.5)
            with pytest.raises(APIStatusError) as caught:
                await ask(base_url, api_key)
            statuses.append((caught.value.status_code, caught.value.type))
        await ask(base_url, api_key)

    engine = scripted([replace(letters(renderer, "1234"), delay_s=0.5), letters(renderer, "ok")])
    done = live(renderer, agent, engine, limits=Limits(turns=8, turn_tokens=20, episode_tokens=20, wall_clock_s=20))
    assert statuses == [(429, "rate_limit_error")]
    assert done.terminal_reason is TerminalReason.MODEL_END and done.num_turns == 2


def test_a_program_that_leaves_something_running_with_its_output_open_has_ended_all_the_same(renderer):
    left = "\nimport subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(25)'])\n"
    began = time.monotonic()
    done = live(renderer, program(PROGRAM, end=left), scripted([letters(renderer, "Hello.")]))
    assert time.monotonic() - began < 20
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert done.artifacts["stdout"] == b"Hello.\n"
