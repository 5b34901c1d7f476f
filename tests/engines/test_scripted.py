"""The fakes: scripted accidents, played demonstrations, and the recorder."""

import asyncio

import numpy as np
import pytest

from rollwright.engines import (
    EngineError,
    EngineLostError,
    PlayedEngine,
    RecordingEngine,
    Reply,
    ScriptedEngine,
    WeightsRefusedError,
    replies_in_order,
)
from tests.cases import case
from tests.engines.battery import manifest_of
from tests.engines.small import draw, draw_all, request_of


def test_replies_are_given_in_order_and_run_out_with_a_sentence():
    async def run():
        engine = ScriptedEngine(replies_in_order([[5, 0], Reply(token_ids=[6, 7], behavior_logprobs=[-0.1, -0.2])]))
        assert (await draw(engine, request_of(1))).token_ids == [5, 0]
        second = await draw(engine, request_of(2))
        assert (second.token_ids, second.finish) == ([6, 7], "stop_string")
        assert second.logprobs.tolist() == [np.float32(-0.1), np.float32(-0.2)]
        with pytest.raises(EngineError, match="all 2 scripted replies"):
            await draw(engine, request_of(3))

    asyncio.run(run())


@pytest.mark.case("F22")
def test_every_declared_stop_id_ends_a_completion():
    """Two stop ids of a chat model; comparing with one of them alone would count a finished answer as cut off."""
    given = case("F22")
    stops, most = frozenset(given.input["stop_ids"]), given.input["max_new_tokens"]

    async def run():
        engine = ScriptedEngine(replies_in_order(given.input["completions"]))
        requests = [
            request_of(n, stop_token_ids=stops, max_tokens=most) for n in range(len(given.input["completions"]))
        ]
        turns = [await draw(engine, request) for request in requests]
        assert [turn.finish == "stop_token" for turn in turns] == given.expect["finished"]
        truncated = [turn.finish == "length" for turn in turns]
        assert abs(sum(truncated) / len(turns) - given.expect["truncated_fraction"]) < 1e-9
        # What the case masks as padding was never drawn.
        assert [len(turn.token_ids) for turn in turns] == [sum(mask) for mask in given.expect["loss_mask"]]

    asyncio.run(run())


@pytest.mark.case("F103")
def test_the_sampled_stop_id_stays_with_its_score():
    given = case("F103")
    kept = given.expect["kept_for_training"]

    async def run():
        reply = Reply(token_ids=given.input["sampled_ids"], behavior_logprobs=given.input["scores"])
        stops = frozenset(given.input["stop_ids"])
        turn = await draw(ScriptedEngine(lambda request: reply), request_of(1, stop_token_ids=stops))
        assert turn.token_ids == kept["ids"]
        assert turn.logprobs.tolist() == np.float32(kept["scores"]).tolist()

    asyncio.run(run())


def test_a_scripted_swap_cuts_a_chunk_where_the_version_changes():
    async def run():
        engine = ScriptedEngine(lambda request: Reply(token_ids=[5, 6, 7, 0], versions={2: 9}))
        turn = await draw(engine, request_of(1))
        assert [(c.token_ids.tolist(), c.policy_version) for c in turn.chunks] == [([5, 6], 0), ([7, 0], 9)]

    asyncio.run(run())


def test_a_scripted_loss_hits_its_own_request_only():
    async def run():
        lost = Reply(token_ids=[5, 6, 0], lost_after=1)
        engine = ScriptedEngine(lambda request: lost if request.request_id == "r1" else [5, 0])
        with pytest.raises(EngineLostError, match="after 1 tokens"):
            await draw(engine, request_of(1))
        assert (await draw(engine, request_of(2))).finish == "stop_token"

    asyncio.run(run())


def test_scripted_delays_let_the_shorter_request_end_first():
    async def run():
        engine = ScriptedEngine(lambda r: Reply(token_ids=[5, 0], delay_s=0.05 if r.request_id == "r1" else 0.0))
        ended = []

        async def one(number):
            await draw(engine, request_of(number))
            ended.append(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(one(1))
            group.create_task(one(2))
        assert ended == [2, 1]

    asyncio.run(run())


def test_a_scripted_refusal_keeps_the_version_and_a_load_waits_for_what_runs():
    async def run():
        engine = ScriptedEngine(
            lambda request: Reply(token_ids=[5] * 20, delay_s=0.002), refused_versions=frozenset({1})
        )
        with pytest.raises(WeightsRefusedError, match="version 0 serves on"):
            await engine.load_weights(manifest_of({}, 1), "drain")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(draw(engine, request_of(1, max_tokens=20)))
            await asyncio.sleep(0.005)
            group.create_task(engine.load_weights(manifest_of({}, 2), "drain"))
            await asyncio.sleep(0)
            second = group.create_task(draw(engine, request_of(2, max_tokens=2)))
        assert first.result().chunks[0].policy_version == 0
        assert second.result().chunks[0].policy_version == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("swap", "versions", "again"),
    [("drain", [(0, 0)], 0), ("continue", [(0, 0), (1, 0)], 0), ("recompute", [(0, 0), (1, 1)], 3 + 16)],
)
def test_scripted_weights_in_mid_turn_need_no_model(swap, versions, again):
    async def run():
        engine = ScriptedEngine(lambda request: [5] * 40)
        stream = engine.generate(request_of(1, max_tokens=40, chunk_tokens=16))
        chunks = [await anext(stream)]
        loading = asyncio.ensure_future(engine.load_weights(manifest_of({}, 1), swap))
        await asyncio.sleep(0)
        chunks += [chunk async for chunk in stream]
        await loading
        assert [len(chunk.token_ids) for chunk in chunks] == [16, 16, 8]
        found = [(chunk.policy_version, chunk.cache_version) for chunk in chunks]
        assert list(dict.fromkeys(found)) == versions
        assert engine.refilled_tokens == again

    asyncio.run(run())


def test_scripted_loads_are_taken_in_order_and_a_refused_one_moves_nobody():
    async def run():
        engine = ScriptedEngine(lambda request: [5] * 40, refused_versions=frozenset({3}))
        stream = engine.generate(request_of(1, max_tokens=40, chunk_tokens=16))
        chunks = [await anext(stream)]
        draining = asyncio.ensure_future(engine.load_weights(manifest_of({}, 1), "drain"))
        await asyncio.sleep(0)
        going_on = asyncio.ensure_future(engine.load_weights(manifest_of({}, 2), "continue"))
        with pytest.raises(WeightsRefusedError):
            await engine.load_weights(manifest_of({}, 3), "continue")
        chunks += [chunk async for chunk in stream]
        await asyncio.gather(draining, going_on)
        assert {chunk.policy_version for chunk in chunks} == {0}
        assert (await draw(engine, request_of(2, max_tokens=2))).chunks[0].policy_version == 2

    asyncio.run(run())


def test_a_demonstration_plays_its_turns_in_order_and_has_no_logprobs():
    async def run():
        engine = PlayedEngine([[5, 6, 0], [7, 0, 8]])
        first, second = await draw(engine, request_of(1)), await draw(engine, request_of(2))
        assert (first.token_ids, first.finish) == ([5, 6, 0], "stop_token")
        assert (second.token_ids, second.finish) == ([7, 0], "stop_token")
        assert np.isnan(first.logprobs).all()
        assert not engine.capabilities.has_sampled_distribution
        with pytest.raises(EngineError, match="demonstration of 2 turns"):
            await draw(engine, request_of(3))

    asyncio.run(run())


def test_a_played_turn_without_a_stop_token_is_refused_unless_it_is_cut():
    async def run():
        with pytest.raises(EngineError, match="none of the stop tokens"):
            await draw(PlayedEngine([[5, 6]]), request_of(1))
        cut = await draw(PlayedEngine([[5, 6]]), request_of(1, max_tokens=1))
        assert (cut.token_ids, cut.finish) == ([5], "length")

    asyncio.run(run())


def test_the_recorder_keeps_every_chunk_that_passed():
    async def run():
        engine = RecordingEngine(ScriptedEngine(lambda request: [5, 6, 7, 0]))
        turns = await draw_all(engine, [request_of(n, chunk_tokens=1) for n in range(3)])
        for number, turn in enumerate(turns):
            kept = [r.chunk for r in engine.chunks if r.request.request_id == f"r{number}"]
            assert kept == list(turn.chunks)

    asyncio.run(run())
