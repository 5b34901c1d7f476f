"""An exchange as bytes: whole, or as events while it is drawn. Who leaves before the end is no longer drawn for.

    receive ──http.disconnect──► exchange.abandon ──► turns cancelled ──► engine.cancel
    exchange.news ──► deltas of each turn ──► send

A writer that is slower than the engine finds more in each delta, and nothing waits in a queue.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import numpy as np
from starlette.types import Receive, Scope, Send

from rollwright.record import ids, logprobs
from rollwright.rendering import Renderer
from rollwright.rollout.gateway.dialect import Dialect, Script, without_stop
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.exchange import Drawing, Exchange
from rollwright.rollout.gateway.telling import Delta

__all__ = ["EventStream", "until_done"]


async def until_done(exchange: Exchange, receive: Receive) -> None:
    """Wait for all turns of an exchange; where the client leaves first, they are cancelled."""
    async with _watched(exchange, receive):
        while not exchange.is_done:
            exchange.news.clear()
            await exchange.news.wait()


class EventStream:
    """An ASGI answer of server-sent events."""

    def __init__(self, exchange: Exchange, dialect: Dialect, renderer: Renderer) -> None:
        """Store what is to be written."""
        self._exchange = exchange
        self._renderer = renderer
        self._script: Script = dialect.script(exchange, renderer)
        self._finished: set[int] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write events until all turns are done, or nobody reads them."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with _watched(self._exchange, receive):
            await _send(send, self._script.begin())
            while len(self._finished) < len(self._exchange.drawings):
                self._exchange.news.clear()
                for index, drawing in enumerate(self._exchange.drawings):
                    if index not in self._finished:
                        await _send(send, self._news(index, drawing))
                if len(self._finished) < len(self._exchange.drawings):
                    await self._exchange.news.wait()
            await _send(send, self._end())
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _news(self, index: int, drawing: Drawing) -> Iterator[bytes]:
        """What can be said of a turn by now."""
        answer = drawing.answer
        if answer is not None:
            yield from self._told(index, drawing, drawing.teller.end(answer.told, len(answer.token_ids)))
            yield from self._script.finish(index, answer)
        elif not drawing.is_done and drawing.chunks:
            drawn = ids(np.concatenate([chunk.token_ids for chunk in drawing.chunks]))
            yield from self._told(index, drawing, drawing.teller.go_on(drawn))
        if drawing.is_done:
            self._finished.add(index)

    def _told(self, index: int, drawing: Drawing, delta: Delta) -> Iterator[bytes]:
        drawn = np.concatenate([chunk.token_ids for chunk in drawing.chunks])[delta.first_token : delta.end_token]
        scores = np.concatenate([chunk.behavior_logprobs for chunk in drawing.chunks])
        scores = scores[delta.first_token : delta.end_token]
        yield from self._script.tell(index, delta, *without_stop(ids(drawn), logprobs(scores), self._renderer))

    def _end(self) -> Iterator[bytes]:
        try:
            answers = self._exchange.answers()
        except ApiError as error:
            yield from self._script.fail(error)
            return
        yield from self._script.end(answers)


async def _send(send: Send, events: Iterator[bytes]) -> None:
    body = b"".join(events)
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


@asynccontextmanager
async def _watched(exchange: Exchange, receive: Receive) -> AsyncGenerator[None]:
    """While the client is there; whatever ends the waiting, no turn is left in flight behind it."""

    async def watch() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                exchange.abandon()
                return

    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch(), name=f"client of {exchange.name}")
            yield
            watching.cancel()
    finally:
        exchange.abandon()
