"""What the protocol promises, of every engine."""

import asyncio

import numpy as np
import pytest

from rollwright.engines import EngineError, EngineLostError
from rollwright.record import Engine, Sampling, ScoreRequest, Swap, ids
from tests.engines.battery import MAX_CONTEXT, Subject, subjects
from tests.engines.small import collect, draw, draw_all, request_of

SUBJECTS = subjects()
SWAPS: tuple[Swap, ...] = ("drain", "continue", "recompute")
every = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
slow_drawing = pytest.mark.parametrize("subject", [s for s in SUBJECTS if s.draws_slowly], ids=lambda s: s.name)
with_weights = pytest.mark.parametrize("subject", [s for s in SUBJECTS if s.takes_weights], ids=lambda s: s.name)


def with_engine(subject: Subject, body):
    async def run():
        engine = subject.make()
        try:
            async with asyncio.timeout(60):
                return await body(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


@every
def test_a_turn_is_chunks_of_which_the_last_alone_has_a_finish(subject):
    async def body(engine: Engine):
        turn = await draw(engine, request_of(1))
        assert turn.chunks[-1].finish is not None
        assert all(chunk.finish is None for chunk in turn.chunks[:-1])
        assert all(len(chunk.token_ids) == len(chunk.behavior_logprobs) for chunk in turn.chunks)
        assert all(not chunk.token_ids.flags.writeable for chunk in turn.chunks)
        assert {chunk.policy_version for chunk in turn.chunks} == {0}
        if engine.capabilities.has_sampled_distribution:
            assert (turn.logprobs <= 0).all()

    with_engine(subject, body)


@every
def test_any_stop_token_ends_a_turn_and_stays_in_it_with_its_logprob(subject):
    async def body(engine: Engine):
        free = await draw(engine, request_of(1, max_tokens=6, stop_token_ids=frozenset({0})))
        first = free.token_ids[0]
        stopped = await draw(engine, request_of(2, seed=1001, max_tokens=6, stop_token_ids=frozenset({63, first})))
        assert stopped.finish == "stop_token"
        assert stopped.token_ids == [first]
        assert len(stopped.logprobs) == 1

    with_engine(subject, body)


@every
def test_max_tokens_cuts_a_turn_as_length(subject):
    async def body(engine: Engine):
        turn = await draw(engine, request_of(1, max_tokens=1, stop_token_ids=frozenset()))
        assert (turn.finish, len(turn.token_ids)) == ("length", 1)

    with_engine(subject, body)


@every
def test_a_turn_of_no_tokens_is_one_empty_chunk(subject):
    async def body(engine: Engine):
        turn = await draw(engine, request_of(1, max_tokens=0))
        assert (turn.finish, turn.token_ids, len(turn.chunks)) == ("length", [], 1)

    with_engine(subject, body)


@slow_drawing
def test_a_full_context_cuts_a_turn_as_length(subject):
    async def body(engine: Engine):
        prompt = np.ones(MAX_CONTEXT - 2, dtype=np.int32)
        turn = await draw(engine, request_of(1, prompt, max_tokens=100, stop_token_ids=frozenset()))
        assert (turn.finish, len(turn.token_ids)) == ("length", 2)

    with_engine(subject, body)


@every
def test_a_context_that_is_too_long_is_refused_with_the_limit(subject):
    async def body(engine: Engine):
        with pytest.raises(EngineError, match=str(MAX_CONTEXT)):
            await draw(engine, request_of(1, np.ones(MAX_CONTEXT + 1, dtype=np.int32)))

    with_engine(subject, body)


@every
def test_what_an_engine_cannot_do_is_refused_not_ignored(subject):
    async def body(engine: Engine):
        with pytest.raises(EngineError, match="processors"):
            await draw(engine, request_of(1, sampling=Sampling(processors=("repetition",))))
        with pytest.raises(EngineError, match="routed_experts"):
            await draw(engine, request_of(2, wanted_tensors=frozenset({"routed_experts"})))
        if subject.serves_one_policy:
            with pytest.raises(EngineError, match="solver"):
                await draw(engine, request_of(3, policy="solver"))
        for swap in SWAPS:
            if swap not in engine.capabilities.swaps:
                with pytest.raises(EngineError, match=f"{swap}|no weights"):
                    await engine.load_weights(subject.manifest(1), swap)

    with_engine(subject, body)


@every
def test_requests_together_each_get_a_turn(subject):
    async def body(engine: Engine):
        turns = await draw_all(engine, [request_of(number) for number in range(6)])
        assert all(turn.finish in {"stop_token", "length"} for turn in turns)

    if subject.draws_slowly:
        with_engine(subject, body)


@slow_drawing
def test_chunks_of_one_token_are_the_same_turn(subject):
    async def body(engine: Engine):
        whole = await draw(engine, request_of(1, stop_token_ids=frozenset()))
        single = await draw(engine, request_of(2, seed=1001, chunk_tokens=1, stop_token_ids=frozenset()))
        assert single.token_ids == whole.token_ids
        assert np.array_equal(single.logprobs, whole.logprobs)
        assert all(len(chunk.token_ids) <= 1 for chunk in single.chunks)
        assert len(single.chunks) >= len(whole.token_ids)

    with_engine(subject, body)


@slow_drawing
def test_cancel_gives_back_what_was_drawn(subject):
    async def body(engine: Engine):
        request = request_of(1, max_tokens=44, chunk_tokens=1, stop_token_ids=frozenset())
        whole = await draw(engine, request_of(2, seed=1001, max_tokens=44, stop_token_ids=frozenset()))
        drawn = []
        async for chunk in engine.generate(request):
            drawn.append(chunk)
            if len(drawn) == 2:
                await engine.cancel("r1")
        tokens = [int(token) for chunk in drawn for token in chunk.token_ids]
        assert drawn[-1].finish in {"aborted", "length"}
        assert tokens == whole.token_ids[: len(tokens)]
        assert len(tokens) >= 2

    with_engine(subject, body)


@every
def test_unknown_names_can_be_cancelled_and_released(subject):
    async def body(engine: Engine):
        await engine.cancel("nobody")
        await engine.release("nowhere")
        assert (await draw(engine, request_of(1))).finish is not None

    with_engine(subject, body)


@every
def test_a_deadline_that_has_passed_ends_a_turn_as_aborted(subject):
    async def body(engine: Engine):
        await engine.pause()
        turn = await draw(engine, request_of(1, deadline_s=0.02))
        assert (turn.finish, turn.token_ids) == ("aborted", [])
        await engine.resume()

    with_engine(subject, body)


@every
def test_a_paused_engine_draws_nothing_until_it_goes_on(subject):
    async def body(engine: Engine):
        await engine.pause()
        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(draw(engine, request_of(1)))
            await asyncio.sleep(0.05)
            assert not drawing.done()
            await engine.resume()
        assert drawing.result().finish in {"stop_token", "length"}

    with_engine(subject, body)


@every
def test_a_closed_engine_is_lost_to_later_requests(subject):
    async def body(engine: Engine):
        await engine.close()
        with pytest.raises(EngineLostError):
            await draw(engine, request_of(1))
        await engine.release("s1/0")

    with_engine(subject, body)


@slow_drawing
def test_close_ends_what_is_being_drawn(subject):
    async def body(engine: Engine):
        request = request_of(1, max_tokens=44, chunk_tokens=1, stop_token_ids=frozenset())
        chunks = engine.generate(request)
        await anext(chunks)
        async with asyncio.TaskGroup() as group:
            rest = group.create_task(collect(chunks))
            await engine.close()
        assert rest.result().finish in {"aborted", "length"}

    with_engine(subject, body)


@slow_drawing
def test_a_reader_that_leaves_in_mid_turn_leaves_nothing_behind(subject):
    async def body(engine: Engine):
        for number in range(8):
            request = request_of(number, max_tokens=44, chunk_tokens=1, stop_token_ids=frozenset())
            chunks = engine.generate(request)
            await anext(chunks)
            await chunks.aclose()  # pyright: ignore[reportAttributeAccessIssue] - a generator has it
            await engine.release(request.session)
        turn = await draw(engine, request_of(1, max_tokens=3, stop_token_ids=frozenset()))
        assert turn.finish == "length"

    with_engine(subject, body)


@with_weights
def test_scores_are_one_a_token_and_carry_the_version(subject):
    async def body(engine: Engine):
        tokens = ids([3, 1, 4, 1, 5, 9])
        request = ScoreRequest(policy="policy", token_ids=tokens, score_from=2, sampling=Sampling(), tensors={})
        scores = await engine.score(request)
        assert len(scores.logprobs) == 4
        assert (scores.logprobs <= 0).all()
        assert scores.policy_version == 0

    with_engine(subject, body)


@with_weights
@pytest.mark.parametrize("swap", SWAPS)
def test_new_weights_in_mid_turn_give_each_token_its_version_and_its_cache(subject, swap):
    async def body(engine: Engine):
        assert swap in engine.capabilities.swaps
        stream = engine.generate(request_of(1, max_tokens=40, chunk_tokens=1, stop_token_ids=frozenset()))
        chunks = [await anext(stream)]
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.load_weights(subject.manifest(3), swap))
            chunks += [chunk async for chunk in stream]
        found = [(chunk.policy_version, chunk.cache_version) for chunk in chunks for _ in chunk.token_ids]
        before = found.count((0, 0))
        behind = {"drain": (0, 0), "continue": (3, 0), "recompute": (3, 3)}[swap]
        assert len(found) == 40 and found == [(0, 0)] * before + [behind] * (40 - before)
        later = await draw(engine, request_of(2, max_tokens=2, stop_token_ids=frozenset()))
        assert {(chunk.policy_version, chunk.cache_version) for chunk in later.chunks} == {(3, 3)}

    with_engine(subject, body)
