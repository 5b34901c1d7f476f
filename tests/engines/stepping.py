"""A decoder that tests step by hand, so that new weights come at an exact token."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import torch

from rollwright.engines.embedded.caches import EngineCounters
from rollwright.engines.embedded.decoder import Decoder, DecoderSettings
from rollwright.engines.embedded.opening import EmbeddedSettings, make_runner
from rollwright.engines.embedded.turns import Sink, Turn
from rollwright.record import GenerationRequest, Swap
from tests.engines import small


class Stepper:
    """The part of an embedded engine that its thread runs, without the thread."""

    def __init__(self, model, settings: EmbeddedSettings) -> None:
        self.runner = make_runner(model, settings)
        self.counters = EngineCounters()
        rules = DecoderSettings(num_slots=settings.num_slots, version=0, evict_after_s=float("inf"))
        self.decoder = Decoder(self.runner, rules, lambda: 0.0, self.counters)
        self._loop = asyncio.new_event_loop()
        self._sinks: dict[str, Sink] = {}

    def submit(self, *requests: GenerationRequest) -> None:
        """Queue requests and take them in: the first token of each is drawn."""
        for request in requests:
            sink = self._sinks[request.request_id] = Sink(self._loop)
            self.decoder.submit(Turn(request=request, deadline=float("inf"), sink=sink))
        self.decoder.admit(0.0)

    def load(self, model, version: int, swap: Swap) -> None:
        """New weights, between two steps."""
        with torch.inference_mode():
            install = self.runner.stage({name: t.detach().clone() for name, t in model.state_dict().items()})
        self.decoder.install(install, version, swap)

    def step(self, times: int = 1) -> None:
        """Draw so many tokens of every turn."""
        for _ in range(times):
            self.decoder.step()

    def finish(self) -> None:
        """Draw until nothing is left."""
        while self.decoder.num_drawing:
            self.decoder.step()

    def turn(self, request_id: str) -> small.Turn:
        """What has come out of a request."""
        self.decoder.delivery.send()
        self._loop.run_until_complete(asyncio.sleep(0))
        queue = self._sinks[request_id].queue
        events = [queue.get_nowait() for _ in range(queue.qsize())]
        for event in events:
            if isinstance(event, Exception):
                raise event
            queue.put_nowait(event)
        return small.Turn(tuple(event for event in events if not isinstance(event, Exception)))

    def close(self) -> None:
        self._loop.close()


def next_turn(request: GenerationRequest, drawn: Sequence[int], answer: Sequence[int]) -> GenerationRequest:
    """The turn of the same session behind what was drawn and a tool's answer."""
    context = [*request.token_ids.tolist(), *drawn, *answer]
    return replace(request, request_id=f"{request.request_id}+", token_ids=small.ids(context))
