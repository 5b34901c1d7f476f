"""A turn on its way: the request, when it has to end, and where its chunks go."""

import asyncio
from dataclasses import dataclass, field

from rollwright.record import Chunk, GenerationRequest

__all__ = ["Delivery", "Sink", "Turn"]

Event = Chunk | Exception


class Sink:
    """Where the decode thread puts the chunks of one turn; read on the event loop that asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind to the loop; the queue holds at most a turn's chunks."""
        self.loop = loop
        self.queue: asyncio.Queue[Event] = asyncio.Queue()


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """One request from the call of `generate` to its last chunk; changed by the decode thread alone."""

    request: GenerationRequest
    deadline: float
    """On the engine's clock."""
    sink: Sink
    place: int = -1
    """Where it is being drawn; −1 while it waits."""
    num_sent: int = 0
    """Drawn tokens that went out in chunks."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """What a decode step has for the loops that asked: one wake-up a loop and step, however many rows."""

    _parcels: dict[asyncio.AbstractEventLoop, list[tuple[Sink, Event]]] = field(
        default_factory=dict[asyncio.AbstractEventLoop, list[tuple[Sink, Event]]]
    )

    def add(self, sink: Sink, event: Event) -> None:
        """Keep an event until `send`."""
        self._parcels.setdefault(sink.loop, []).append((sink, event))

    def send(self) -> None:
        """Hand all events over; those of a loop that has ended have no reader left."""
        if not self._parcels:
            return
        parcels, self._parcels = self._parcels, {}
        for loop, parcel in parcels.items():
            try:
                loop.call_soon_threadsafe(_unpack, parcel)
            except RuntimeError:
                if not loop.is_closed():
                    raise


def _unpack(parcel: list[tuple[Sink, Event]]) -> None:
    for sink, event in parcel:
        sink.queue.put_nowait(event)
