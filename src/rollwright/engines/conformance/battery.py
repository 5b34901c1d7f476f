"""All items in order, over one engine; each becomes a finding, whatever happens in it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from rollwright.engines.conformance import drawing, ending, living
from rollwright.engines.conformance.bench import Bench
from rollwright.engines.conformance.subject import Fault, Finding, Inapplicable, Subject
from rollwright.record import Engine, EngineLostError

__all__ = ["ITEMS", "check_engine"]

ItemFn = Callable[[Bench], Awaitable[str]]

ITEMS: Mapping[str, ItemFn] = {
    "chunks": ending.chunks,
    "greedy": drawing.greedy,
    "sampled": drawing.sampled,
    "temperature": drawing.temperature,
    "top_p": drawing.top_p,
    "top_k": drawing.top_k,
    "min_p": drawing.min_p,
    "draws": drawing.draws,
    "seeds": drawing.seeds,
    "scores": drawing.scores,
    "turns": drawing.turns,
    "concurrent": drawing.concurrent,
    "stop tokens": ending.stop_tokens,
    "stop strings": ending.stop_strings,
    "limits": ending.limits,
    "context": ending.context,
    "deadline": ending.deadline,
    "cancel": ending.cancel,
    "pause": ending.pause,
    "refusals": ending.refusals,
    "new weights": living.new_weights,
    "broken weights": living.broken_weights,
}
"""Name to item; `restart` comes behind them."""
_RESTART = "restart"
_ITEM_FACTOR = 10
"""An item asks several times: it may take so many times the patience with one answer."""


async def check_engine(subject: Subject) -> AsyncGenerator[Finding]:
    """Hold an engine to the protocol: one finding an item, as each is known.

    The engine is opened once for all items, and once more for the last. An engine that is lost over an item is opened
    again, so one fault does not hide others.

    Args:
        subject: the engine, and what it is judged by.
    """
    bench = Bench(await asyncio.to_thread(subject.open), subject)
    try:
        for name, item in ITEMS.items():
            yield await _found(name, bench, item(bench))
            if not await _lives(bench):
                bench = await _reopened(bench)
        reopened = await asyncio.to_thread(subject.open)
        try:
            yield await _found(_RESTART, bench, living.check_end(bench, reopened))
        finally:
            await reopened.close()
    finally:
        await bench.engine.close()


async def _found(name: str, bench: Bench, answer: Awaitable[str]) -> Finding:
    patience_s = bench.subject.patience_s * _ITEM_FACTOR
    try:
        async with asyncio.timeout(patience_s):
            return Finding(item=name, status="passed", sentence=await answer)
    except Inapplicable as why:
        return Finding(item=name, status="skipped", sentence=str(why))
    except TimeoutError:
        return Finding(item=name, status="failed", sentence="no answer came in time")
    except Exception as error:  # noqa: BLE001 - whatever an engine raises where it should not is what is found
        return Finding(item=name, status="failed", sentence=_told(error))


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"


async def _lives(bench: Bench) -> bool:
    """Whether it still answers; what an item left paused goes on."""
    try:
        async with asyncio.timeout(bench.subject.patience_s):
            await bench.engine.resume()
            await bench.draw(bench.request(bench.subject.prompts[0], max_tokens=1))
    except (EngineLostError, TimeoutError):
        return False
    except Exception:  # noqa: BLE001 - it answers, if wrongly; the items say how
        return True
    return True


async def _reopened(bench: Bench) -> Bench:
    engine: Engine = await asyncio.to_thread(bench.subject.open)
    try:
        async with asyncio.timeout(bench.subject.patience_s):
            await bench.engine.close()
    except (EngineLostError, TimeoutError):
        pass
    return Bench(engine, bench.subject)
