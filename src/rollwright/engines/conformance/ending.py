"""Items on how a turn ends: stops, limits, deadlines, cancelling, and requests that are refused."""

import asyncio
import time
from collections.abc import Mapping

import numpy as np

from rollwright.engines.conformance.bench import Bench, Turn, expect
from rollwright.engines.conformance.subject import Fault, Inapplicable
from rollwright.record import EngineLostError, Sampling, ids

__all__ = ["cancel", "chunks", "context", "deadline", "limits", "pause", "refusals", "stop_strings", "stop_tokens"]

_GREEDY = Sampling(temperature=0.0)
_MOST_FILLED = 8192
"""Tokens of the longest context that is filled to see its end."""
_TRIES = 3


async def stop_tokens(bench: Bench) -> str:
    """A stop token ends the turn and stays in it, with its log-probability."""
    prompt = bench.subject.prompts[0]
    free = await bench.draw(bench.request(prompt, sampling=_GREEDY))
    drawn = free.token_ids.tolist()
    stop = drawn[min(2, len(drawn) - 1)]
    due = drawn[: drawn.index(stop) + 1]
    unused = next(token for token in range(len(drawn) + 1) if token not in drawn)
    stopped = await bench.draw(bench.request(prompt, sampling=_GREEDY, stop_token_ids=frozenset({stop, unused})))
    found = stopped.token_ids.tolist()
    expect(found == due, f"with stop token {stop} the turn is {found}; due is {due}, the stop token in it")
    expect(stopped.finish == "stop_token", f"the turn ended as {stopped.finish!r}; due is 'stop_token'")
    return f"stop token {stop} ended the turn as its token {len(due)}"


async def stop_strings(bench: Bench) -> str:
    """A stop string ends the turn with the token that completes it."""
    decode = bench.subject.decode_text
    if decode is None:
        raise Inapplicable("no text of the tokens is known here")
    prompt = bench.subject.prompts[0]
    drawn = (await bench.draw(bench.request(prompt, sampling=_GREEDY))).token_ids.tolist()
    stop = decode(drawn[1:3])
    if not stop.strip() or "�" in stop:
        raise Inapplicable(f"the text {stop!r} of what is drawn makes no stop string")
    due = next(drawn[:n] for n in range(1, len(drawn) + 1) if stop in decode(drawn[:n]))
    turn = await bench.draw(bench.request(prompt, sampling=_GREEDY, stop_strings=(stop,)))
    found = turn.token_ids.tolist()
    expect(found == due, f"with stop string {stop!r} the turn is {found}; due is {due}")
    expect(turn.finish == "stop_string", f"the turn ended as {turn.finish!r}; due is 'stop_string'")
    return f"stop string {stop!r} ended the turn at its token {len(due)}"


async def limits(bench: Bench) -> str:
    """`max_tokens`, none and one among them."""
    for most in (0, 1, 5):
        turn = await bench.draw(bench.request(bench.subject.prompts[0], max_tokens=most))
        found = (len(turn.token_ids), turn.finish)
        expect(found == (most, "length"), f"max_tokens={most} gave {found[0]} tokens and finish {found[1]!r}")
    return "0, 1 and 5 tokens came where so many were allowed"


async def context(bench: Bench) -> str:
    """A full context cuts the turn; one that is too long is refused."""
    most = bench.engine.capabilities.max_context_tokens
    if most > _MOST_FILLED:
        raise Inapplicable(f"contexts of {most} tokens are not filled here; at most {_MOST_FILLED} are")
    prompt = ids(np.resize(np.concatenate(bench.subject.prompts), most))
    turn = await bench.draw(bench.request(ids(prompt[: most - 2]), max_tokens=most))
    found = (len(turn.token_ids), turn.finish)
    expect(found == (2, "length"), f"with room for 2 tokens came {found[0]} and finish {found[1]!r}")
    bench.agree(turn)
    await _refused(bench, f"a context of {most + 1} tokens", token_ids=ids([*prompt.tolist(), 1]))
    return f"a context of {most} tokens is full, and one more is refused"


async def deadline(bench: Bench) -> str:
    """A deadline gives back what was drawn."""
    await bench.engine.pause()
    try:
        began = time.monotonic()
        turn = await bench.draw(bench.request(bench.subject.prompts[0], deadline_s=0.05))
    finally:
        await bench.engine.resume()
    expect(turn.finish == "aborted", f"a turn whose deadline passed ended as {turn.finish!r}; due is 'aborted'")
    return f"a turn with a deadline of 0.05 s came back after {time.monotonic() - began:.2f} s"


async def cancel(bench: Bench) -> str:
    """What was drawn comes back, at once."""
    turn = await _cancelled(bench)
    for _ in range(_TRIES):
        if turn.finish == "aborted":
            bench.agree(turn)
            return f"{len(turn.token_ids)} tokens came back with finish 'aborted'"
        # It had come to its end before it was cancelled.
        turn = await _cancelled(bench)
    raise Fault(f"a cancelled turn ended as {turn.finish!r} after {len(turn.token_ids)} tokens; due is 'aborted'")


async def _cancelled(bench: Bench) -> Turn:
    """A turn that was cancelled behind its first chunk, while nothing is drawn."""
    most = bench.engine.capabilities.max_context_tokens
    # Its deadline comes long after it counts as lost: a turn that a deadline ended is no cancelled one.
    far_s = 100.0 * bench.subject.patience_s
    request = bench.request(bench.subject.prompts[0], max_tokens=most, chunk_tokens=1, deadline_s=far_s)
    stream = bench.engine.generate(request)
    first = await anext(stream)
    await bench.engine.pause()
    try:
        async with asyncio.timeout(bench.subject.patience_s):
            await bench.engine.cancel(request.request_id)
            rest = await bench.rest(stream)
    except TimeoutError as error:
        raise Fault(f"nothing came back for {bench.subject.patience_s:g} s behind a cancel") from error
    finally:
        await bench.engine.resume()
        await bench.engine.release(request.session)
    return Turn(request=request, chunks=(first, *rest))


async def pause(bench: Bench) -> str:
    """Nothing is drawn until `resume`."""
    await bench.engine.pause()
    async with asyncio.TaskGroup() as group:
        drawing = group.create_task(bench.draw(bench.request(bench.subject.prompts[0], max_tokens=2)))
        await asyncio.sleep(0.1)
        has_drawn = drawing.done()
        await bench.engine.resume()
    expect(not has_drawn, "a paused engine finished a turn")
    return "a turn that was asked for in a pause came behind it"


async def chunks(bench: Bench) -> str:
    """The last chunk alone has a finish; arrays are read-only; small chunks are as small as was asked."""
    turn = await bench.draw(bench.request(bench.subject.prompts[0], chunk_tokens=1))
    finishes = [chunk.finish for chunk in turn.chunks]
    expect(finishes[-1] is not None and not any(finishes[:-1]), f"the finishes of a turn's chunks are {finishes}")
    expect(max(len(chunk.token_ids) for chunk in turn.chunks) <= 1, "chunk_tokens=1 gave a chunk of more tokens")
    arrays = [array for chunk in turn.chunks for array in (chunk.token_ids, chunk.behavior_logprobs)]
    expect(not any(array.flags.writeable for array in arrays), "an array of a chunk can be written to")
    expect(
        set(turn.versions) == {bench.version}, f"its tokens are of versions {set(turn.versions)}, not {bench.version}"
    )
    whole = await bench.draw(bench.request(bench.subject.prompts[0]))
    expect(len(whole.chunks) == 1, f"chunk_tokens=0 gave {len(whole.chunks)} chunks within one version")
    return f"{len(turn.chunks)} chunks, the last with finish {turn.finish!r}"


async def refusals(bench: Bench) -> str:
    """What an engine cannot do is refused, with a sentence, not ignored."""
    await _refused(bench, "a logit processor", sampling=Sampling(processors=("unknown",)))
    await _refused(bench, "a tensor that is not made", wanted_tensors=frozenset({"unknown"}))
    await _refused(bench, "another policy", policy=f"not-{bench.subject.policy}")
    await bench.engine.cancel("nobody")
    await bench.engine.release("nowhere")
    return "what cannot be done is refused, and unknown names can be cancelled and released"


async def _refused(bench: Bench, what: str, **changes: object) -> None:
    prompt = changes.pop("token_ids", bench.subject.prompts[0])
    assert isinstance(prompt, np.ndarray)
    request = bench.request(ids(prompt), **changes)
    try:
        await bench.draw(request)
    except EngineLostError as error:
        raise Fault(f"{what} lost the engine: {error}") from error
    except ValueError:
        return
    raise Fault(f"{what} was not refused; {_told(changes)} was ignored")


def _told(changes: Mapping[str, object]) -> str:
    return ", ".join(changes) or "it"
