"""Judges that a test owns: replies by a function of what they are shown, and a real server on the loopback."""

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rollwright.record import Message
from rollwright.verifiers.judging.asking import Asker, AskLimits
from rollwright.verifiers.judging.client import JudgeReply

__all__ = ["FunctionJudge", "JudgeServer", "asker_of", "judge_server", "scripted"]


@dataclass
class FunctionJudge:
    """Replies by a function of the whole prompt; remembers what it was shown."""

    reply: Callable[[str], str]
    revision: str = "function"
    cost: float | None = None
    shown: list[str] = field(default_factory=list)

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        prompt = "\n\n".join(m.text for m in messages)
        self.shown.append(prompt)
        return JudgeReply(text=self.reply(prompt), cost=self.cost)


def scripted(*replies: str, cost: float | None = None) -> FunctionJudge:
    """The replies in order; the last again and again."""
    left = list(replies)
    return FunctionJudge(reply=lambda _: left.pop(0) if len(left) > 1 else left[0], cost=cost)


def asker_of(judge: FunctionJudge, *, attempts: int = 3, timeout_s: float = 60.0) -> Asker:
    return Asker(judge, AskLimits(attempts=attempts, timeout_s=timeout_s))


@dataclass
class JudgeServer:
    """An OpenAI-compatible server that answers `GRADE: 7`; `answers` may hold (status, body) to give first."""

    url: str = ""
    requests: list[dict] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    gate: threading.Event = field(default_factory=threading.Event)

    def respond(self, asked: dict) -> tuple[int, str]:
        with self._lock:
            self.requests.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            answer = self.answers.pop(0) if self.answers else None
        self.gate.wait(20)
        with self._lock:
            self._now -= 1
        if answer is not None:
            return answer
        content = {"choices": [{"message": {"role": "assistant", "content": "It is fine.\nGRADE: 7"}}]}
        return 200, json.dumps(content | {"usage": {"prompt_tokens": 100, "completion_tokens": 10}})


@contextmanager
def judge_server() -> Generator[JudgeServer]:
    """The server, on a free port of the loopback."""
    state = JudgeServer()
    state.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.keys.append(self.headers.get("Authorization"))
            status, body = state.respond(asked) if self.path == "/v1/chat/completions" else (404, "no such path")
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                self.wfile.write(content)
            except OSError:
                pass  # whoever asked has given up

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        state.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
