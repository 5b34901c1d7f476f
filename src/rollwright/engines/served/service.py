"""The loop of a model that is served in a process of its own, whatever draws in it; run by another interpreter.

    parent ──first line of stdin: settings──► service ──► back-end, such as vLLM, in this process
    parent ◄──lines of JSON over a socket in a private folder, behind a key──► reader threads ──inbox──► one loop:
        obey ──► expire ──► install new weights ──► one step of the back-end ──► send chunks ──► again

The loop waits on the inbox alone, and only when nothing can be drawn. The back-end takes one step at a time, so that it
is known of each token which weights drew it. New weights come from a safetensors file whose every tensor is compared
with its digest before any is laid into the model. A cache never serves later turns under newer weights: a version salts
its own prefixes, and what is left of older ones is dropped. When the parent ends, stdin does, and so does this.

Nothing of the rest of this package is known here, and nothing is unpickled.
"""

import base64
import hashlib
import hmac
import json
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

__all__ = [
    "EMBEDDING",
    "HEAD",
    "Backend",
    "Message",
    "RefusedError",
    "Scored",
    "Service",
    "Stepped",
    "read_tensors",
    "serve",
]

Message = dict[str, Any]
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
LOST = 3
"""Exit code of a service that cannot go on."""


@dataclass(slots=True)
class Stepped:
    """What a step did for one request."""

    number: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str | None = None
    scored: "Scored | None" = None


@dataclass(slots=True)
class Scored:
    """(n − 1,) log-probabilities of given tokens, and (n − 1, k) of the most probable ones."""

    logprobs: Any
    best_ids: Any
    best_logprobs: Any


class Backend(Protocol):
    """What draws: vLLM, or what stands in for it in a test."""

    facts: Message
    """vocab, shapes (name to shape of needed tensors), is_tied, about."""

    def add(self, number: int, turn: Message, salt: str) -> None:
        """Take in a turn."""
        ...

    def add_score(self, number: int, prompt: Sequence[int], top_k: int) -> None:
        """Take in tokens to be scored."""
        ...

    def abort(self, number: int) -> None:
        """Drop one."""
        ...

    def step(self) -> list[Stepped]:
        """Draw at most one token for each."""
        ...

    def install(self, names: Sequence[str], body: bytes) -> None:
        """Serve the named tensors of a safetensors file; an exception ends the service."""
        ...

    def forget(self, running: bool) -> None:  # noqa: FBT001 - a fact of the moment
        """Drop every cached prefix, and with `running` the caches of running turns, which are made again."""
        ...


@dataclass(slots=True, eq=False)
class _Turn:
    ask: int
    peer: "_Peer"
    asked: Message
    until: float
    number: int
    cache: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    count: int = 0
    is_score: bool = False


class _Peer:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._connection.sendall(line)
        except OSError:
            return  # It has left; its reader tells the loop.


class RefusedError(Exception):
    """A command that cannot be done; nothing was changed."""


class Service:
    """The loop. All but `_listen` and `_read` run on the main thread."""

    def __init__(self, backend: Backend, settings: Message, listener: socket.socket) -> None:
        """Store the parts; the listener is bound."""
        self._backend = backend
        self._settings = settings
        self._listener = listener
        self._inbox: queue.SimpleQueue[tuple[_Peer, Message | None]] = queue.SimpleQueue()
        self._turns: dict[int, _Turn] = {}
        self._held: list[_Turn] = []
        self._loads: list[tuple[_Peer, Message]] = []
        self._peers: set[_Peer] = set()
        self._next = 0
        self._version = int(settings["version"])
        self._is_paused = False
        self._is_closing = False

    def run(self) -> None:
        """Serve until `close`."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        try:
            while not self._is_closing:
                self._obey_all()
                self._expire()
                self._install_next()
                if self._may_step():
                    self._step()
        except Exception as error:
            sentence = f"the service failed: {type(error).__name__}: {error}"
            for peer in list(self._peers):
                peer.send({"lost": sentence})
            raise

    def _obey_all(self) -> None:
        wait: float | None = 0.0 if self._may_step() or self._may_install() else self._wait_s()
        while True:
            try:
                peer, message = self._inbox.get(timeout=wait) if wait != 0.0 else self._inbox.get_nowait()
            except queue.Empty:
                return
            wait = 0.0
            try:
                self._obey(peer, message)
            except RefusedError as error:
                assert message is not None
                peer.send({"ask": message.get("ask"), "refused": str(error)})

    def _wait_s(self) -> float | None:
        nearest = min((turn.until for turn in (*self._turns.values(), *self._held)), default=None)
        return None if nearest is None else max(0.001, nearest - time.monotonic())

    def _obey(self, peer: _Peer, message: Message | None) -> None:
        if message is None:
            self._peers.discard(peer)
            for turn in self._turns_of(peer):
                self._take_out(turn)
            return
        match message["do"]:
            case "generate" | "score":
                self._take_in(peer, message)
            case "load":
                threading.Thread(target=self._read, args=(peer, message), name="read", daemon=True).start()
            case "loaded":
                self._loads.append((peer, message))
            case "unreadable":
                raise RefusedError(message["why"])
            case _:
                self._obey_at_once(peer, message)

    def _obey_at_once(self, peer: _Peer, message: Message) -> None:
        """What is done when it is answered."""
        match message["do"]:
            case "cancel":
                for turn in [turn for turn in self._turns_of(peer) if turn.ask == message["turn"]]:
                    self._end(turn, "aborted")
            case "pause":
                self._is_paused = True
            case "resume":
                self._is_paused = False
            case "health":
                pass
            case "close":
                self._is_closing = True
                for turn in [*self._turns.values(), *self._held]:
                    self._end(turn, "aborted")
            case other:
                raise RefusedError(f"nothing is known of {other!r} here")
        running = len(self._turns) + len(self._held)
        told = {"version": self._version, "running": running, "loads": len(self._loads), "paused": self._is_paused}
        peer.send({"ask": message["ask"], **told})

    def _take_in(self, peer: _Peer, message: Message) -> None:
        self._next += 1
        turn = _Turn(
            ask=message["ask"],
            peer=peer,
            asked=message,
            until=time.monotonic() + float(message.get("deadline_s", 1e9)),
            number=self._next,
            cache=self._version,
            is_score=message["do"] == "score",
        )
        message["prompt"] = _numbers(message["prompt"], np.int32).tolist()
        self._held.append(turn)
        if not self._waits_to_drain():
            self._start_held()

    def _turns_of(self, peer: _Peer) -> list[_Turn]:
        return [turn for turn in (*self._turns.values(), *self._held) if turn.peer is peer]

    def _waits_to_drain(self) -> bool:
        return bool(self._loads) and self._loads[0][1]["swap"] == "drain"

    def _start_held(self) -> None:
        held, self._held = self._held, []
        for turn in held:
            self._add(turn)

    def _add(self, turn: _Turn) -> None:
        turn.cache = self._version
        try:
            if turn.is_score:
                self._backend.add_score(turn.number, turn.asked["prompt"], turn.asked["top_k"])
            else:
                self._backend.add(turn.number, turn.asked, str(self._version))
        except ValueError as error:
            turn.peer.send({"ask": turn.ask, "refused": f"the back-end refuses it: {error}"})
        else:
            self._turns[turn.number] = turn

    def _expire(self) -> None:
        now = time.monotonic()
        for turn in [t for t in (*self._turns.values(), *self._held) if t.until <= now]:
            self._end(turn, "aborted")

    def _read(self, peer: _Peer, message: Message) -> None:
        """Read and compare a file, beside the loop."""
        try:
            body = read_tensors(Path(message["file"]), message["tensors"], self._backend.facts)
        except (RefusedError, OSError, ValueError, KeyError) as error:
            self._inbox.put((peer, {**message, "do": "unreadable", "why": str(error)}))
        else:
            names = [one["name"] for one in message["tensors"]]
            self._inbox.put((peer, {**message, "do": "loaded", "names": names, "body": body}))

    def _may_install(self) -> bool:
        return bool(self._loads) and not (self._waits_to_drain() and self._turns)

    def _install_next(self) -> None:
        if not self._may_install():
            return
        peer, message = self._loads.pop(0)
        swap = message["swap"]
        for turn in self._turns.values():
            self._send(turn, None)
        self._backend.install(message["names"], message["body"])
        self._version = int(message["version"])
        self._backend.forget(swap == "recompute")
        for turn in list(self._turns.values()):
            if turn.is_score or not turn.count:
                # It may have read prefixes of the old weights, and nothing came of it: it begins anew.
                self._backend.abort(turn.number)
                del self._turns[turn.number]
                self._add(turn)
            elif swap == "recompute":
                turn.cache = self._version
        peer.send({"ask": message["ask"], "version": self._version})
        if not self._waits_to_drain():
            self._start_held()

    def _may_step(self) -> bool:
        """In a pause, tokens are scored where nothing is being drawn."""
        if not self._is_paused:
            return bool(self._turns)
        return bool(self._turns) and all(turn.is_score for turn in self._turns.values())

    def _step(self) -> None:
        for stepped in self._backend.step():
            turn = self._turns.get(stepped.number)
            if turn is None:
                continue
            if turn.is_score:
                if stepped.scored is not None:
                    del self._turns[turn.number]
                    turn.peer.send(_told_scores(turn.ask, stepped.scored, self._version))
                continue
            if not all(map(np.isfinite, stepped.logprobs)):
                self._take_out(turn)
                turn.peer.send({"ask": turn.ask, "lost": f"the logits of version {self._version} are not finite"})
                continue
            turn.tokens += stepped.tokens
            turn.logprobs += stepped.logprobs
            turn.count += len(stepped.tokens)
            if stepped.finish is not None:
                del self._turns[turn.number]
                self._send(turn, stepped.finish)
            elif 0 < turn.asked["chunk_tokens"] <= len(turn.tokens):
                self._send(turn, None)

    def _end(self, turn: _Turn, finish: str) -> None:
        self._take_out(turn)
        self._send(turn, finish)

    def _take_out(self, turn: _Turn) -> None:
        if self._turns.pop(turn.number, None) is not None:
            self._backend.abort(turn.number)
        self._held = [other for other in self._held if other is not turn]

    def _send(self, turn: _Turn, finish: str | None) -> None:
        if not turn.tokens and finish is None:
            return
        turn.peer.send(
            {
                "ask": turn.ask,
                "tokens": _packed(turn.tokens, np.int32),
                "logprobs": _packed(turn.logprobs, np.float32),
                "version": self._version,
                "cache": turn.cache,
                "finish": finish,
            }
        )
        turn.tokens, turn.logprobs = [], []

    def _listen(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._hear, args=(connection,), name="peer", daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        """The reader of one connection; nothing is obeyed before the key."""
        peer = _Peer(connection)
        with connection, connection.makefile("rb") as lines:
            try:
                first = json.loads(lines.readline(65536))
                if not hmac.compare_digest(str(first.get("key")), str(self._settings["key"])):
                    peer.send({"refused": "the key is another one"})
                    return
                facts = {key: value for key, value in self._backend.facts.items() if key != "shapes"}
                peer.send({"hello": facts, "version": self._version})
                self._peers.add(peer)
                for line in lines:
                    self._inbox.put((peer, json.loads(line)))
            except (OSError, ValueError, AttributeError):
                pass
        self._inbox.put((peer, None))


def read_tensors(file: Path, due: Sequence[Message], facts: Message) -> bytes:
    """A safetensors file, compared with what was promised and what the model needs.

    Args:
        file: to be read whole.
        due: name, dtype, shape and sha256 of each tensor.
        facts: of the backend.

    Returns:
        Its bytes.

    Raises:
        RefusedError: naming what is missing, unknown, of another type, shape or digest, or not finite.
    """
    body = file.read_bytes()
    size = int.from_bytes(body[:8], "little")
    if not 2 <= size <= len(body) - 8:
        raise RefusedError(f"{file.name} is no whole safetensors file")
    table: dict[str, Message] = json.loads(body[8 : 8 + size])
    table.pop("__metadata__", None)
    needed = {name: list(shape) for name, shape in facts["shapes"].items()}
    if facts["is_tied"]:
        needed[HEAD] = needed[EMBEDDING]
    found = [f"{name} is needed and was not promised" for name in needed if name not in {one["name"] for one in due}]
    for one in due:
        name = one["name"]
        if name not in needed:
            found.append(f"{name} is unknown to the model")
        elif list(one["shape"]) != needed[name]:
            found.append(f"{name} has the shape {one['shape']}, the model needs {needed[name]}")
        elif name not in table:
            found.append(f"{name} did not arrive")
        elif fault := _difference(one, table[name], memoryview(body)[8 + size :]):
            found.append(fault)
    by_name = {one["name"]: one["sha256"] for one in due}
    if facts["is_tied"] and by_name.get(HEAD) != by_name.get(EMBEDDING):
        found.append(f"{HEAD} and {EMBEDDING} are tied in the model, and differ here")
    if found:
        raise RefusedError("; ".join(found[:5]))
    return body


def _difference(due: Message, given: Message, data: memoryview) -> str | None:
    name = due["name"]
    if TYPES.get(given["dtype"]) != due["dtype"]:
        return f"{name} arrived as {given['dtype']}, not {due['dtype']}"
    if list(given["shape"]) != list(due["shape"]):
        return f"{name} arrived with the shape {given['shape']}, not {due['shape']}"
    raw = data[given["data_offsets"][0] : given["data_offsets"][1]]
    if hashlib.sha256(raw).hexdigest() != due["sha256"]:
        return f"{name} arrived with other numbers than the manifest's digest says"
    if due["dtype"] == "bfloat16":
        # The exponent of what is not finite has all bits set.
        is_finite = bool(((np.frombuffer(raw, np.uint16) & 0x7F80) != 0x7F80).all())
    else:
        is_finite = bool(np.isfinite(np.frombuffer(raw, due["dtype"])).all())
    return None if is_finite else f"{name} holds numbers that are not finite"


def _told_scores(ask: int, scored: Scored, version: int) -> Message:
    return {
        "ask": ask,
        "logprobs": _packed(scored.logprobs, np.float32),
        "best_ids": _packed(scored.best_ids, np.int32),
        "best_logprobs": _packed(scored.best_logprobs, np.float32),
        "version": version,
    }


def _packed(values: Any, dtype: Any) -> str:  # noqa: ANN401 - numbers in any nesting
    return base64.b64encode(np.asarray(values, dtype=dtype).tobytes()).decode()


def _numbers(text: str, dtype: Any) -> Any:  # noqa: ANN401 - an array of that type
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def serve(make: Callable[[Message], Backend]) -> int:
    """Read the settings, make the backend, and serve at the socket that the settings name.

    Returns:
        The exit code.
    """
    settings: Message = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        backend = make(settings)
        with socket.socket(socket.AF_UNIX) as listener:
            # Bound under another name first: who finds the socket finds it listening.
            waiting = f"{settings['socket']}.new"
            listener.bind(waiting)
            listener.listen()
            os.rename(waiting, settings["socket"])
            Service(backend, settings, listener).run()
    except Exception:  # noqa: BLE001 - the last line of the log is what the parent tells
        traceback.print_exc()
        return LOST
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
