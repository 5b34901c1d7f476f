"""Continuous batching: turns are admitted between decode steps, and leave the batch when they end."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.embedded.batch import Batch
from rollwright.engines.embedded.caches import Caches, EngineCounters
from rollwright.engines.embedded.places import NO_VERSION, Places, Session
from rollwright.engines.embedded.runner import Install, Logits, Runner
from rollwright.engines.embedded.turns import Delivery, Turn
from rollwright.engines.errors import EngineError, EngineLostError
from rollwright.engines.stops import DecodeText, ends_in_stop_string
from rollwright.record import Chunk, Finish, GenerationRequest, Swap, ids, logprobs

__all__ = ["Decoder", "DecoderSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSettings:
    """How turns are admitted."""

    num_slots: int
    version: int
    """Of the weights that the runner starts with."""
    evict_after_s: float
    """An open session that has drawn nothing for so long may lose its cache to a new one; infinite: none ever does."""
    decode_text: DecodeText | None = None
    """For stop strings."""


class Decoder:
    """The turns of one engine and their caches; the decode thread alone calls it."""

    def __init__(
        self,
        runner: Runner,
        settings: DecoderSettings,
        clock: Callable[[], float],
        counters: EngineCounters,
    ) -> None:
        """Start without turns."""
        self.version = settings.version
        self._clock = clock
        self.delivery = Delivery()
        self._runner = runner
        self._settings = settings
        self._counters = counters
        self._places = Places(num_places=settings.num_slots)
        self._caches = Caches(runner, self._places, counters)
        self._batch = Batch(runner.num_places, runner.max_context_tokens, runner.vocab)
        self._waiting: deque[Turn] = deque()
        self._drawing: dict[int, Turn] = {}
        self._void: list[Turn] = []
        """Turns being drawn whose cache has to be made again first."""
        self._by_request: dict[str, Turn] = {}
        self._by_session: dict[str, Turn] = {}
        self.next_deadline = float("inf")

    @property
    def num_drawing(self) -> int:
        """Turns in the batch."""
        return len(self._drawing)

    @property
    def wake_at(self) -> float:
        """When something has to happen without being asked: a deadline, or room made for a turn that waits."""
        idle = self._places.longest_idle(self._by_session) if self._waiting else None
        room = float("inf") if idle is None else idle.last_used + self._settings.evict_after_s
        return min(self.next_deadline, room)

    def submit(self, turn: Turn) -> None:
        """Queue a turn."""
        request = turn.request
        if request.request_id in self._by_request:
            self.fail(turn, EngineError(f"request {request.request_id} is running already; ids are used once."))
        elif request.session in self._by_session:
            other = self._by_session[request.session].request.request_id
            sentence = f"session {request.session} is drawing request {other}; a context draws one turn at a time."
            self.fail(turn, EngineError(sentence))
        else:
            self._by_request[request.request_id] = self._by_session[request.session] = turn
            self._waiting.append(turn)
            self.next_deadline = min(self.next_deadline, turn.deadline)
            if min(request.max_tokens, self._runner.max_context_tokens - len(request.token_ids)) == 0:
                self.end(turn, "length")

    def admit(self, now: float) -> bool:
        """Take in every waiting turn for which there is room, in order; False when nothing changed."""
        if not self._waiting:
            return False

        def evictable() -> Session | None:
            idle = self._places.longest_idle(self._by_session)
            is_long = idle is not None and idle.last_used + self._settings.evict_after_s <= now
            return idle if is_long else None

        admitted: list[Turn] = []
        refused: deque[Turn] = deque()
        for turn in self._waiting:
            is_open = self._caches.open(turn.request, self.version, evictable) is not None
            (admitted if is_open else refused).append(turn)
        self._waiting = refused
        if not admitted:
            return False
        logits = self._caches.fill([turn.request for turn in admitted], self.version)
        for turn in admitted:
            turn.place = self._session(turn).place
            self._drawing[turn.place] = turn
            self._batch.start(turn.place, turn.request)
        self._advance(np.array([turn.place for turn in admitted]), logits)
        return True

    def step(self) -> None:
        """Draw one token for every turn in the batch, or for those alone whose cache has to be made again."""
        if self._void:
            self._make_again()
            return
        places, tokens, positions = self._batch.inputs()
        logits = self._runner.decode(places, tokens, positions)
        self._counters.decode_steps += 1
        self._counters.decode_rows += len(places)
        self._advance(places, logits)

    def expire(self, now: float) -> None:
        """End the turns whose deadline has come."""
        if now < self.next_deadline:
            return
        for turn in [turn for turn in self._by_request.values() if turn.deadline <= now]:
            self.end(turn, "aborted")
        self.next_deadline = min((turn.deadline for turn in self._by_request.values()), default=float("inf"))

    def cancel(self, request_id: str) -> None:
        """End a request with what was drawn."""
        if turn := self._by_request.get(request_id):
            self.end(turn, "aborted")

    def drop(self, turn: Turn) -> None:
        """End a turn that nobody reads, if it still runs."""
        if self._by_request.get(turn.request.request_id) is turn:
            self.end(turn, "aborted")

    def release(self, session: str) -> None:
        """End what the session draws, and free its place."""
        if turn := self._by_session.get(session):
            self.end(turn, "aborted")
        self._places.close(session)

    def end_all(self) -> None:
        """End every turn."""
        for turn in list(self._by_request.values()):
            self.end(turn, "aborted")

    def lose_all(self, sentence: str) -> None:
        """Every turn fails with the engine."""
        for turn in list(self._by_request.values()):
            self.fail(turn, EngineLostError(sentence))
        self._by_request.clear()

    def install(self, install: Install, version: int, swap: Swap) -> None:
        """Serve new weights; of the turns being drawn, a chunk ends here.

        Args:
            install: makes them serve.
            version: their number.
            swap: `drain`: nothing is being drawn. `continue`: running turns keep their caches to their end.
                `recompute`: the caches of running turns are made again before their next tokens. In all three every
                other cache is made again by whoever needs it next.
        """
        assert swap != "drain" or not self._drawing
        running = list(self._drawing.values())
        for turn in running:
            if self._batch.num_drawn(turn.place) > turn.num_sent:
                self._send(turn, None)
        install()
        self.version = version
        if swap == "recompute":
            self._void = running
        kept = [self._session(turn) for turn in running if turn not in self._void]
        self._places.outdate(kept)
        for turn in self._void:
            self._session(turn).lose(self._batch.num_written(turn.place))

    def end(self, turn: Turn, finish: Finish) -> None:
        """Send the last chunk of a turn and take it out."""
        place = turn.place
        if place < 0:
            self._waiting = deque(other for other in self._waiting if other is not turn)
            empty = Chunk(
                token_ids=ids([]),
                behavior_logprobs=logprobs([]),
                policy_version=self.version,
                cache_version=self.version,
                tensors={},
                finish=finish,
            )
            self.delivery.add(turn.sink, empty)
        else:
            self._send(turn, finish)
            # The last token drawn has not been through the model: its keys and values come with the next turn.
            self._session(turn).end_turn(self._so_far(turn).token_ids[:-1], self._clock())
        self._take_out(turn)

    def fail(self, turn: Turn, error: Exception) -> None:
        """Raise in the reader of a turn."""
        self.delivery.add(turn.sink, error)

    def _advance(self, places: NDArray[np.intp], logits: Logits) -> None:
        """Draw, then end the turns that this completes."""
        drawn = self._batch.draw(places, logits)
        self._counters.drawn_tokens += len(places) - len(drawn.broken)
        for place in drawn.broken.tolist():
            self._break(self._drawing[place])
        for place in drawn.stopped.tolist():
            self.end(self._drawing[place], "stop_token")
        for place in places[self._batch.is_watched[places]].tolist():
            self._look_at(self._drawing[place])
        for place in drawn.full.tolist():
            if place in self._drawing:
                self.end(self._drawing[place], "length")

    def _look_at(self, turn: Turn) -> None:
        """Stop strings, and chunks of a few tokens."""
        request = turn.request
        if request.stop_strings:
            decode_text = self._settings.decode_text
            assert decode_text is not None
            if ends_in_stop_string(self._batch.tokens(turn.place), request.stop_strings, decode_text):
                self.end(turn, "stop_string")
                return
        if 0 < request.chunk_tokens <= self._batch.num_drawn(turn.place) - turn.num_sent:
            self._send(turn, None)

    def _make_again(self) -> None:
        """Compute the contexts of running turns under the new weights, and draw the token behind each."""
        turns, self._void = self._void, []
        logits = self._caches.fill([self._so_far(turn) for turn in turns], self.version)
        self._advance(np.array([turn.place for turn in turns]), logits)

    def _so_far(self, turn: Turn) -> GenerationRequest:
        """The request with what was drawn for it."""
        drawn = self._batch.tokens(turn.place)
        return replace(turn.request, token_ids=ids(np.concatenate([turn.request.token_ids, drawn])))

    def _send(self, turn: Turn, finish: Finish | None) -> None:
        cache_version = self._session(turn).version
        chunk = Chunk(
            token_ids=self._batch.tokens(turn.place, turn.num_sent),
            behavior_logprobs=self._batch.logprobs(turn.place, turn.num_sent),
            policy_version=self.version,
            cache_version=self.version if cache_version == NO_VERSION else cache_version,
            tensors={},
            finish=finish,
        )
        turn.num_sent = self._batch.num_drawn(turn.place)
        self.delivery.add(turn.sink, chunk)

    def _break(self, turn: Turn) -> None:
        """Numbers that are not finite end the turn, and must not stay in a cache that others will read."""
        sentence = f"request {turn.request.request_id}: the logits of version {self.version} are not finite"
        self.delivery.add(turn.sink, EngineLostError(sentence))
        self._runner.scrub(turn.place)
        self._places.remember(turn.place, None)
        self._take_out(turn)
        self._places.close(turn.request.session)

    def _take_out(self, turn: Turn) -> None:
        if turn.place >= 0:
            self._batch.stop(turn.place)
            del self._drawing[turn.place]
            self._void = [other for other in self._void if other is not turn]
        del self._by_request[turn.request.request_id]
        del self._by_session[turn.request.session]

    def _session(self, turn: Turn) -> Session:
        return self._places.sessions[turn.request.session]
