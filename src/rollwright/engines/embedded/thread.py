"""The decode thread.

    event loop ──commands──► inbox ──► obey ──► expire ──► install ──► admit ──► step ──► deliver ──chunks──► event loop
                               ▲                                                             │
                               └──────────────────────── again, between two decode steps ◄───┘

It waits on the inbox alone, and only when nothing can be drawn: while rows run it looks there between two steps. A
command wakes it; so does the nearest deadline. The inbox needs no bound of its own: each caller waits for what it
asked, so it is as long as its callers are many, and admission bounds those. Chunks wake the event loop that asked, once
a step. When it dies, every turn and every command fails with `EngineLostError`, and so does whatever comes after.
"""

import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.embedded.commands import (
    Cancel,
    Close,
    Command,
    Drop,
    Generate,
    Load,
    Pause,
    Release,
    Resume,
    Score,
)
from rollwright.engines.embedded.decoder import Decoder
from rollwright.engines.embedded.runner import Install, Runner
from rollwright.engines.embedded.weights import WeightNames, check_manifest, check_tensors
from rollwright.engines.errors import EngineLostError
from rollwright.engines.sampling import Scored, score
from rollwright.record import ScoreRequest, Scores, WeightReader, WeightsManifest, frozen_array, logprobs

__all__ = ["DecodeThread", "WeightSource"]

_Told = Cancel | Pause | Resume | Close
_Awaited = _Told | Score | Load


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSource:
    """Where published weights come from, and what they have to be."""

    policy: str
    names: WeightNames
    read: WeightReader


class DecodeThread:
    """Owns the decoder: everything in it happens on this thread."""

    def __init__(self, runner: Runner, decoder: Decoder, weights: WeightSource, clock: Callable[[], float]) -> None:
        """Store the parts; `start` starts the thread."""
        self._runner = runner
        self._decoder = decoder
        self._weights = weights
        self._clock = clock
        self._wake = threading.Condition()
        self._inbox: deque[Command] = deque()
        self._death: str | None = None
        self._is_paused = False
        self._is_closing = False
        self._loads: deque[tuple[Load, Install]] = deque()
        self._scores: deque[Score] = deque()
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def post(self, command: Command) -> None:
        """Hand a command over; from any thread.

        Raises:
            EngineLostError: when the thread has ended.
        """
        with self._wake:
            if self._death is not None:
                raise EngineLostError(self._death)
            self._inbox.append(command)
            self._wake.notify()

    def _run(self) -> None:
        try:
            is_busy = False
            while not self._is_closing:
                for command in self._take(is_busy):
                    self._obey(command)
                is_busy = self._turn()
            self._end("the engine is closed")
        except Exception as error:  # noqa: BLE001 - the thread's last act: whatever it was, all waiters must hear of it
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._end(f"the engine died: {type(error).__name__}: {error} ({place.name}, line {place.lineno})")

    def _turn(self) -> bool:
        """One round between two looks at the inbox; False when nothing is left to do."""
        decoder = self._decoder
        decoder.expire(self._clock())
        is_busy = self._install() | self._score_one()
        if not self._is_paused:
            if not self._loads:
                is_busy |= decoder.admit(self._clock())
            if decoder.num_drawing:
                decoder.step()
                is_busy = True
        decoder.delivery.send()
        return is_busy

    def _take(self, is_busy: bool) -> list[Command]:  # noqa: FBT001 - a state handed on, not a choice of behavior
        with self._wake:
            if not self._inbox and not is_busy:
                left = self._wake_at() - self._clock()
                self._wake.wait(timeout=None if left == float("inf") else max(0.0, left))
            taken = list(self._inbox)
            self._inbox.clear()
            return taken

    def _wake_at(self) -> float:
        """Room for waiting turns matters only while turns are taken in."""
        return self._decoder.next_deadline if self._is_paused or self._loads else self._decoder.wake_at

    def _obey(self, command: Command) -> None:
        if isinstance(command, Generate):
            self._decoder.submit(command.turn)
        elif isinstance(command, Drop):
            self._decoder.drop(command.turn)
        elif isinstance(command, Release):
            self._decoder.release(command.session)
        elif command.done.set_running_or_notify_cancel():
            self._obey_awaited(command)

    def _obey_awaited(self, command: _Awaited) -> None:
        match command:
            case Cancel():
                self._decoder.cancel(command.request_id)
                self._answer(command)
            case Score():
                self._scores.append(command)
            case Load():
                self._stage(command)
            case Pause():
                self._is_paused = True
                self._answer(command)
            case Resume():
                self._is_paused = False
                self._answer(command)
            case Close():
                self._is_closing = True
                self._decoder.end_all()
                self._answer(command)

    def _answer(self, command: _Told | Load) -> None:
        """What went before the answer is handed over before it."""
        self._decoder.delivery.send()
        command.done.set_result(None)

    def _stage(self, command: Load) -> None:
        """Read and lay out new weights beside those that serve; a refusal changes nothing."""
        try:
            staged = self._read(command.manifest)
        except Exception as error:  # noqa: BLE001 - the reader is the wiring's; its failure is the publisher's, not ours
            command.done.set_exception(error)
        else:
            self._loads.append((command, staged))

    def _read(self, manifest: WeightsManifest) -> Install:
        check_manifest(manifest, self._weights.names, self._weights.policy)
        tensors = check_tensors(manifest, self._weights.read(manifest), self._weights.names)
        return self._runner.stage(tensors)

    def _install(self) -> bool:
        """Serve the next staged weights; those that drain, once nothing is being drawn."""
        if not self._loads:
            return False
        command, install = self._loads[0]
        if command.swap == "drain" and self._decoder.num_drawing:
            return False
        self._loads.popleft()
        self._decoder.install(install, command.manifest.version, command.swap)
        self._answer(command)
        return True

    def _score_one(self) -> bool:
        if not self._scores:
            return False
        command = self._scores.popleft()
        command.done.set_result(self._score(command.request))
        return True

    def _score(self, request: ScoreRequest) -> Scores:
        pieces: list[Scored] = []
        first = request.score_from
        for logits in self._runner.score(request.token_ids, first):
            tokens = request.token_ids[first : first + len(logits)]
            pieces.append(score(logits, tokens, request.sampling, request.top_k))
            first += len(logits)
        values = [piece.logprobs for piece in pieces] or [np.zeros(0)]
        best: dict[str, NDArray[np.generic]] = {}
        if request.top_k and pieces:
            best = {
                "topk_ids": frozen_array(np.concatenate([piece.best_ids for piece in pieces]), np.int32),
                "topk_logprobs": frozen_array(np.concatenate([piece.best_logprobs for piece in pieces]), np.float32),
            }
        return Scores(logprobs=logprobs(np.concatenate(values)), policy_version=self._decoder.version, tensors=best)

    def _end(self, sentence: str) -> None:
        """Nothing is served from here on; everyone who waits is told."""
        with self._wake:
            self._death = sentence
            left = list(self._inbox)
            self._inbox.clear()
        self._decoder.lose_all(sentence)
        for command in left:
            if isinstance(command, Generate):
                self._decoder.fail(command.turn, EngineLostError(sentence))
            elif not isinstance(command, Drop | Release) and command.done.set_running_or_notify_cancel():
                _lose(command, sentence)
        for command in (*(load for load, _ in self._loads), *self._scores):
            _lose(command, sentence)
        self._decoder.delivery.send()


def _lose(command: _Awaited, sentence: str) -> None:
    """What would end something is done once the engine has ended; the rest fails with it."""
    if isinstance(command, Score | Load):
        command.done.set_exception(EngineLostError(sentence))
    else:
        command.done.set_result(None)
