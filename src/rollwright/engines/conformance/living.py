"""Items on an engine's life: new weights under running turns, weights that are broken, the end and a new beginning."""

import asyncio
from dataclasses import replace

from rollwright.engines.conformance.bench import Bench, Turn, expect
from rollwright.engines.conformance.subject import Fault, Inapplicable, PublishFn
from rollwright.record import Chunk, Engine, EngineLostError, Sampling, Swap

__all__ = ["broken_weights", "check_end", "new_weights"]

_SWAPS: tuple[Swap, ...] = ("drain", "continue", "recompute")


async def new_weights(bench: Bench) -> str:
    """A turn says of each token which version drew it; what comes behind a load is of the new weights alone."""
    publish = _publisher(bench)
    told: list[str] = []
    for swap in _SWAPS:
        if swap in bench.engine.capabilities.swaps:
            told.append(f"{swap} after {await _swapped(bench, publish, swap)} tokens")
    expect(bool(told), "the engine names no way of taking new weights")
    return f"new weights in mid-stream by {', '.join(told)}; later turns agree with the new reference"


async def _swapped(bench: Bench, publish: PublishFn, swap: Swap) -> int:
    """New weights behind the first chunk of a turn.

    Returns:
        Tokens of the old version.
    """
    old, new = bench.version, bench.version + 1
    manifest = publish(new)
    prompt = bench.subject.prompts[0]
    most = min(bench.engine.capabilities.max_context_tokens - len(prompt), 3 * bench.subject.new_tokens)
    request = bench.request(prompt, max_tokens=most, chunk_tokens=1)
    stream = bench.engine.generate(request)
    first = await anext(stream)
    await bench.engine.pause()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(bench.engine.load_weights(manifest, swap))
        if swap != "drain":
            async with asyncio.timeout(bench.subject.patience_s):
                await asyncio.shield(loading)
        await bench.engine.resume()
        rest = await bench.rest(stream)
    await bench.engine.release(request.session)
    bench.version = new
    turn = Turn(request=request, chunks=(first, *rest))
    before = _check_versions(turn, old, new, swap)
    bench.agree(replace(turn, chunks=_first_tokens(turn, before)), version=old)
    if swap == "recompute":
        _check_recomputed(bench, turn, before)
    later = await bench.draw(bench.request(prompt))
    found = {(chunk.policy_version, chunk.cache_version) for chunk in later.chunks}
    expect(found == {(new, new)}, f"behind a load by {swap!r}, version and cache are {found}; due is {new} of both")
    try:
        bench.agree(later)
    except Fault as fault:
        raise Fault(
            f"behind a load of version {new} by {swap!r}: {fault}; old weights, or an old cache, serve"
        ) from fault
    return before


def _check_versions(turn: Turn, old: int, new: int, swap: Swap) -> int:
    versions = turn.versions
    before = versions.count(old)
    expect(
        versions == [old] * before + [new] * (len(versions) - before),
        f"a turn over a load by {swap!r} has versions {versions}; due are {old}, then {new}",
    )
    expect(before > 0, f"tokens drawn before a load by {swap!r} are said to be of the new version")
    if swap == "drain":
        expect(before == len(versions), "weights that drain were served to a turn that ran")
        return before
    expect(before < len(versions), f"weights by {swap!r} were never served to a turn that ran")
    caches = {chunk.cache_version for chunk in turn.chunks if chunk.policy_version == new and len(chunk.token_ids)}
    due = old if swap == "continue" else new
    expect(caches == {due}, f"behind a load by {swap!r} the cache is said to be of {caches}; due is {due}")
    return before


def _first_tokens(turn: Turn, count: int) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    seen = 0
    for chunk in turn.chunks:
        if seen + len(chunk.token_ids) <= count and len(chunk.token_ids):
            chunks.append(chunk)
            seen += len(chunk.token_ids)
    return tuple(chunks)


def _check_recomputed(bench: Bench, turn: Turn, before: int) -> None:
    """Tokens behind a recomputed cache agree with the new weights over the whole context."""
    due = bench.reference(turn)[before:]
    gap = float(abs(turn.logprobs[before:] - due).max())
    expect(gap <= bench.subject.tolerance, f"behind a recomputed cache a log-probability is off by {gap:.3g} nats")


async def broken_weights(bench: Bench) -> str:
    """A publication whose digest is wrong is refused, and the old version serves on."""
    manifest = _publisher(bench)(bench.version + 1)
    if not manifest.tensors:
        raise Inapplicable("these weights have no tensors")
    specs = (replace(manifest.tensors[0], sha256="0" * 64), *manifest.tensors[1:])
    try:
        await bench.engine.load_weights(replace(manifest, tensors=specs), "drain")
    except EngineLostError as error:
        raise Fault(f"broken weights lost the engine: {error}") from error
    except ValueError:
        pass
    else:
        raise Fault("weights with a wrong digest were taken")
    turn = await bench.draw(bench.request(bench.subject.prompts[0]))
    expect(set(turn.versions) == {bench.version}, f"version {set(turn.versions)} serves behind a refused load")
    bench.agree(turn)
    return f"a wrong digest was refused, and version {bench.version} serves on"


async def check_end(bench: Bench, reopened: Engine) -> str:
    """A closed engine is lost to later requests; one that is opened again serves from the beginning.

    Args:
        bench: of the engine that ends.
        reopened: opened beside it.
    """
    prompt, patient = bench.subject.prompts[0], bench.subject
    running = bench.engine.generate(bench.request(prompt, chunk_tokens=1, max_tokens=3 * patient.new_tokens))
    await anext(running)
    async with asyncio.timeout(patient.patience_s):
        await bench.engine.close()
        try:
            async for _ in running:
                pass
        except EngineLostError:
            pass
        try:
            await bench.draw(bench.request(prompt))
        except EngineLostError:
            pass
        else:
            raise Fault("a closed engine went on serving")
    again = Bench(reopened, patient)
    turn = await again.draw(again.request(prompt, sampling=Sampling(temperature=0.7)))
    again.agree(turn)
    return "closed, it is lost to later requests; opened again, it agrees with the reference"


def _publisher(bench: Bench) -> PublishFn:
    if bench.subject.publish is None:
        raise Inapplicable("this engine takes no weights here")
    return bench.subject.publish
