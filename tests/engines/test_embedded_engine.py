"""What is the embedded engine's own: its thread, its death, stop strings, deadlines in mid-turn."""

import asyncio
import time

import pytest

from rollwright.engines import EngineError, EngineLostError
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.engines.stops import ends_in_stop_string
from rollwright.record import Sampling, ScoreRequest, ids
from tests.engines.battery import manifest_of
from tests.engines.small import draw, draw_all, request_of, small_model

SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=1000, mode="fast")


def text_of(token_ids):
    """Two letters a token, and nothing for tokens below 4."""
    return "".join(f"{chr(97 + token // 8)}{token % 8}" for token in token_ids if token >= 4)


def opened(decode_text=None, read=lambda manifest: {}):
    return open_engine(small_model("qwen3"), SETTINGS, read, decode_text)


def test_a_stop_string_ends_a_turn_with_its_last_token_and_trims_nothing():
    async def run():
        engine = opened(text_of)
        whole = await draw(engine, request_of(1, max_tokens=20, stop_token_ids=frozenset()))
        text = text_of(whole.token_ids)
        stop = text[5:8]
        request = request_of(2, seed=1001, max_tokens=20, stop_token_ids=frozenset(), stop_strings=("zz", stop))
        turn = await draw(engine, request)
        assert turn.finish == "stop_string"
        count = next(n for n in range(1, 21) if stop in text_of(whole.token_ids[:n]))
        assert turn.token_ids == whole.token_ids[:count]
        assert len(turn.logprobs) == count
        await engine.close()

    asyncio.run(run())


def test_a_stop_string_behind_many_empty_tokens_is_found():
    tokens = ids([8, *([1] * 60), 9])
    assert ends_in_stop_string(tokens, ("b0b1",), text_of)
    assert not ends_in_stop_string(tokens[:-1], ("b0b1",), text_of)


def test_stop_strings_without_text_are_refused():
    async def run():
        engine = opened()
        with pytest.raises(EngineError, match="decode_text"):
            await draw(engine, request_of(1, stop_strings=("x",)))
        await engine.close()

    asyncio.run(run())


def test_a_deadline_in_mid_turn_gives_back_what_was_drawn():
    async def run():
        engine = opened()
        started = time.monotonic()
        turn = await draw(engine, request_of(1, max_tokens=990, deadline_s=0.05, stop_token_ids=frozenset()))
        assert turn.finish == "aborted"
        assert 0 < len(turn.token_ids) < 990
        assert time.monotonic() - started < 20
        await engine.close()

    asyncio.run(run())


def test_drawing_never_blocks_the_event_loop():
    async def run():
        engine = opened()
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        requests = [request_of(n, max_tokens=200, stop_token_ids=frozenset()) for n in range(4)]
        await draw_all(engine, requests)
        ticking.cancel()
        assert ticks > 5
        await engine.close()

    asyncio.run(run())


def test_two_turns_of_one_session_at_once_are_refused():
    async def run():
        engine = opened()
        chunks = engine.generate(request_of(1, max_tokens=900, chunk_tokens=1, stop_token_ids=frozenset()))
        await anext(chunks)
        with pytest.raises(EngineError, match="one turn at a time"):
            await draw(engine, request_of(2, session="s1/0"))
        with pytest.raises(EngineError, match="used once"):
            await draw(engine, request_of(1, session="s2/0"))
        await engine.release("s1/0")
        assert [chunk async for chunk in chunks][-1].finish == "aborted"
        await engine.close()

    asyncio.run(run())


def test_a_dead_engine_is_lost_to_those_it_served_and_to_all_after():
    class Broken:
        """Text that cannot be made."""

        def __call__(self, token_ids):
            raise RuntimeError("no tokenizer")

    async def run():
        engine = opened(Broken())
        weights = dict(small_model("qwen3").state_dict())
        long = engine.generate(request_of(1, max_tokens=900, chunk_tokens=1, stop_token_ids=frozenset()))
        await anext(long)
        with pytest.raises(EngineLostError, match="no tokenizer"):
            await draw(engine, request_of(2, stop_strings=("x",), stop_token_ids=frozenset()))
        with pytest.raises(EngineLostError, match="no tokenizer"):
            async for _ in long:
                pass
        with pytest.raises(EngineLostError):
            await draw(engine, request_of(3))
        with pytest.raises(EngineLostError):
            await engine.load_weights(manifest_of(weights, 1), "drain")
        with pytest.raises(EngineLostError):
            request = ScoreRequest(
                policy="policy", token_ids=ids([1, 2]), score_from=1, sampling=Sampling(), tensors={}
            )
            await engine.score(request)
        await engine.cancel("r1")
        await engine.release("s1/0")
        await engine.close()

    asyncio.run(run())


def test_a_task_that_is_cancelled_while_it_waits_harms_nobody():
    async def run():
        engine = opened()
        await engine.pause()
        waiting = [asyncio.ensure_future(draw(engine, request_of(n))) for n in range(3)]
        await asyncio.sleep(0.02)
        waiting[1].cancel()
        await asyncio.sleep(0.02)
        await engine.resume()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)
        for turn in (done[0], done[2]):
            assert not isinstance(turn, BaseException)
            assert turn.finish is not None
        await engine.close()

    asyncio.run(run())


def test_more_contexts_than_slots_take_turns():
    async def run():
        engine = opened()

        async def episode(number):
            turn = await draw(engine, request_of(number, max_tokens=10, stop_token_ids=frozenset()))
            await engine.release(f"s{number}/0")
            return turn

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(episode(number)) for number in range(20)]
        assert all(len(task.result().token_ids) == 10 for task in tasks)
        await engine.close()

    asyncio.run(run())
