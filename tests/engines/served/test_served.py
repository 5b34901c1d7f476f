"""A served engine keeps the protocol, whatever happens to its service; here over a table in the place of vLLM."""

import asyncio
import json
import os
import signal
import socket
import stat
from dataclasses import replace

import numpy as np
import pytest

from rollwright.engines import EngineError, EngineLostError, WeightsRefusedError
from rollwright.engines.conformance import ITEMS
from rollwright.engines.served import VllmSettings, file_of_location, open_vllm
from rollwright.record import Sampling, ScoreRequest, ids
from rollwright.rollout import SystemClock
from rollwright.runtime.restarting import RestartingEngine, RestartRules
from rollwright.runtime.watchdog import Watchdog, WatchRules
from tests.engines.served.fakes import files_in, manifest, opened, reference, subject
from tests.engines.small import draw, draw_all, request_of
from tests.engines.test_conformance import failed, findings


def with_engine(folder, body, **changes):
    async def run():
        engine = await asyncio.to_thread(lambda: opened(folder, **changes))
        try:
            async with asyncio.timeout(60):
                return await body(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def endless(number, **changes):
    return request_of(number, max_tokens=60, chunk_tokens=1, stop_token_ids=frozenset(), **changes)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_passes_every_item_of_the_battery(tmp_path):
    found = findings(subject(tmp_path))
    assert {finding.status for finding in found.values()} == {"passed"}, failed(found)
    assert list(found) == [*ITEMS, "restart"]


@pytest.mark.parametrize("fault", ["skips table", "skips bias"])
def test_a_service_that_skips_a_tensor_fails_at_new_weights(tmp_path, fault):
    found = failed(findings(replace(subject(tmp_path, fault=fault), patience_s=5.0)))
    assert next(iter(found)) == "new weights"
    assert found.keys() <= {"new weights", "broken weights"}, "what serves on behind a refusal is wrong then, too"
    assert "old weights, or an old cache, serve" in found["new weights"]


def test_a_killed_service_is_lost_to_its_own_requests(tmp_path):
    async def body(engine):
        stream = engine.generate(endless(1))
        await anext(stream)
        os.kill(engine.process.pid, signal.SIGKILL)
        with pytest.raises(EngineLostError, match="request r1: the service has ended"):
            async for _ in stream:
                pass
        with pytest.raises(EngineLostError):
            await draw(engine, request_of(2))
        await engine.cancel("r1")
        await engine.release("s1/0")
        await engine.pause()

    with_engine(tmp_path, body)


@pytest.mark.parametrize(("fault", "sentence"), [("dies", "the service has ended"), ("fails", "out of memory")])
def test_a_service_that_ends_in_mid_turn_says_why_where_it_can(tmp_path, fault, sentence):
    async def body(engine):
        with pytest.raises(EngineLostError, match=sentence):
            await draw(engine, endless(1))

    with_engine(tmp_path, body, fault=fault)


def test_weights_that_break_on_their_way_into_the_model_end_the_service(tmp_path):
    async def body(engine):
        with pytest.raises(EngineLostError, match="half of the weights"):
            await engine.load_weights(manifest(1), "drain")
        with pytest.raises(EngineLostError):
            await draw(engine, request_of(1))

    with_engine(tmp_path, body, fault="breaks")


def test_a_service_that_does_not_start_says_what_stood_in_the_way(tmp_path):
    with pytest.raises(EngineLostError, match="no memory for the model"):
        opened(tmp_path, fault="no memory")
    with pytest.raises(EngineLostError, match="make setup-vllm"):
        open_vllm(tmp_path, VllmSettings(python=tmp_path / "python"))


def test_a_lost_service_is_made_again_with_the_newest_weights(tmp_path):
    async def run():
        dog = Watchdog(WatchRules(), SystemClock(), lambda sentence: None)
        first = await asyncio.to_thread(opened, tmp_path)
        engine = RestartingEngine(first, lambda version: opened(tmp_path, version=version), RestartRules(), dog)
        try:
            async with asyncio.timeout(60):
                await engine.load_weights(manifest(1), "drain")
                stream = engine.generate(endless(1))
                await anext(stream)
                os.kill(first.process.pid, signal.SIGKILL)
                with pytest.raises(EngineLostError):
                    async for _ in stream:
                        pass
                turn = await draw(engine, request_of(2, max_tokens=8, stop_token_ids=frozenset()))
        finally:
            await engine.close()
        assert {chunk.policy_version for chunk in turn.chunks} == {1}
        context = ids([1, 2, 3, *turn.token_ids])
        due = reference(1, context)[np.arange(2, len(context) - 1), context[3:]]
        np.testing.assert_allclose(turn.logprobs, due, atol=1e-4)

    asyncio.run(run())


def test_close_leaves_neither_process_nor_folder(tmp_path):
    async def body(engine):
        pid = engine.process.pid
        folder = engine.process._folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        await engine.close()
        assert not is_alive(pid)
        assert not folder.exists()

    with_engine(tmp_path, body)


def test_who_does_not_know_the_key_is_not_heard(tmp_path):
    async def body(engine):
        def knock(first):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(engine.process._folder / "socket"))
                connection.sendall(first + b'\n{"do": "close", "ask": 1}\n')
                with connection.makefile("rb") as lines:
                    return lines.read()

        for first in (b'{"key": "0"}', b"{}", b"[]", b"no json"):
            assert b"hello" not in await asyncio.to_thread(knock, first)
        assert (await draw(engine, request_of(1))).finish is not None

    with_engine(tmp_path, body)


def spoiled(change):
    def spoil(body):
        size = int.from_bytes(body[:8], "little")
        table = json.loads(body[8 : 8 + size])
        return change(body, table, 8 + size)

    return spoil


def renamed(body, table, start):
    table["other"] = table.pop("bias")
    head = json.dumps(table).encode()
    return len(head).to_bytes(8, "little") + head + body[start:]


SPOILED = {
    "other numbers": (lambda body, table, start: body[:-1] + bytes([body[-1] ^ 1]), "other numbers than the manifest"),
    "cut off": (lambda body, table, start: body[: len(body) // 2], "other numbers|arrived|whole"),
    "no file": (lambda body, table, start: b"", "whole safetensors"),
    "no header": (lambda body, table, start: body[:8] + b"x" * (len(body) - 8), "Expecting value"),
    "another name": (renamed, "bias did not arrive"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_spoiled_file_is_refused_and_the_old_version_serves_on(tmp_path, kind):
    change, sentence = SPOILED[kind]

    async def body(engine):
        stream = engine.generate(endless(1))
        chunks = [await anext(stream)]
        with pytest.raises(WeightsRefusedError, match=sentence):
            await engine.load_weights(manifest(1), "recompute")
        chunks += [chunk async for chunk in stream]
        assert {chunk.policy_version for chunk in chunks} == {0}
        assert (await engine.health())["version"] == 0

    with_engine(tmp_path, body, spoil=spoiled(change))


def test_weights_other_than_the_models_are_refused(tmp_path):
    async def body(engine):
        whole = manifest(1)
        for tensors, sentence in (
            (whole.tensors[:1], "bias is needed"),
            ((*whole.tensors, replace(whole.tensors[0], name="more")), "more is unknown"),
            ((whole.tensors[0], replace(whole.tensors[1], shape=(8, 8))), "has the shape"),
            ((whole.tensors[0], replace(whole.tensors[1], dtype="bfloat16")), "arrived as F32, not bfloat16"),
        ):
            with pytest.raises(WeightsRefusedError, match=sentence):
                await engine.load_weights(replace(whole, tensors=tensors), "drain")
        with pytest.raises(WeightsRefusedError, match="'solver'"):
            await engine.load_weights(replace(whole, policy="solver"), "drain")
        with pytest.raises(WeightsRefusedError, match="'lora'"):
            await engine.load_weights(replace(whole, kind="lora"), "drain")

    with_engine(tmp_path, body)


def test_weights_at_a_place_that_is_no_file_are_refused():
    with pytest.raises(WeightsRefusedError, match="file:PATH"):
        file_of_location(manifest(1))


def test_what_would_be_drawn_from_another_distribution_is_refused(tmp_path):
    async def body(engine):
        with pytest.raises(EngineError, match="0.01"):
            await draw(engine, request_of(1, sampling=Sampling(temperature=0.001)))
        with pytest.raises(EngineError, match="one of the two"):
            await draw(engine, request_of(2, sampling=Sampling(min_p=0.1, top_p=0.5)))
        with pytest.raises(EngineError, match="0 to 63"):
            await draw(engine, request_of(3, [1, 64]))

    with_engine(tmp_path, body)


def test_scores_at_another_sampling_are_of_that_sampling(tmp_path):
    async def body(engine):
        context = ids([3, 1, 4, 1, 5, 9])
        sampling = Sampling(temperature=0.7, top_k=40)
        asked = ScoreRequest(policy="policy", token_ids=context, score_from=2, sampling=sampling, tensors={}, top_k=3)
        found = await engine.score(asked)
        full = reference(0, context)[1:].astype(np.float64) / 0.7
        kept = np.where(full >= np.sort(full, axis=1)[:, -40:-39], full, -np.inf)
        due = kept - np.log(np.exp(kept).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found.logprobs, due[np.arange(4), context[2:]], rtol=1e-4)
        np.testing.assert_array_equal(found.tensors["topk_ids"][:, 0], due.argmax(axis=1))
        assert found.tensors["topk_ids"].shape == (4, 3)

    with_engine(tmp_path, body)


def test_two_turns_of_one_session_at_once_are_refused(tmp_path):
    async def body(engine):
        stream = engine.generate(endless(1))
        await anext(stream)
        with pytest.raises(EngineError, match="one turn at a time"):
            await draw(engine, endless(2, session="s1/0"))
        with pytest.raises(EngineError, match="used once"):
            await draw(engine, replace(endless(1), session="s2/0"))
        await engine.release("s1/0")
        assert [chunk async for chunk in stream][-1].finish == "aborted"

    with_engine(tmp_path, body)


def test_a_reader_that_leaves_ends_its_turn_in_the_service(tmp_path):
    async def body(engine):
        streams = [engine.generate(endless(number)) for number in range(8)]
        for stream in streams:
            await anext(stream)
            await stream.aclose()
        await draw_all(engine, [request_of(10 + number, max_tokens=1) for number in range(4)])
        assert (await engine.health())["running"] == 0

    with_engine(tmp_path, body)


def test_requests_that_come_while_weights_drain_are_drawn_by_the_new_ones(tmp_path):
    async def body(engine):
        stream = engine.generate(endless(1))
        await anext(stream)
        await engine.pause()
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(engine.load_weights(manifest(1), "drain"))
            while not (await engine.health())["loads"]:  # noqa: ASYNC110 - the service is asked, it tells nothing itself
                await asyncio.sleep(0.01)
            later = group.create_task(draw(engine, request_of(2, max_tokens=2)))
            await asyncio.sleep(0.05)
            assert not loading.done() and not later.done()
            await engine.resume()
            rest = [chunk async for chunk in stream]
        assert {chunk.policy_version for chunk in rest} == {0}
        assert {chunk.policy_version for chunk in later.result().chunks} == {1}

    with_engine(tmp_path, body)


def test_files_are_gone_when_they_were_read(tmp_path):
    async def body(engine):
        await engine.load_weights(manifest(1), "drain")
        assert not list(tmp_path.glob("*.safetensors"))

    with_engine(tmp_path, body)
    assert files_in(tmp_path) is not None
