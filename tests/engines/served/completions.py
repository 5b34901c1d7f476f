"""A server of OpenAI's completions around a table of bigrams, with orders to leave things out."""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np

from rollwright.engines.sampling import SamplingRows, draw, score
from rollwright.record import Sampling
from tests.engines.served.fakes import VOCAB, reference, weights_of

LOGITS = weights_of(0)["table"] + weights_of(0)["bias"]


def drawn(body):
    """Token, log-probability and finish of each token of a turn."""
    plain = Sampling(**{key: body[key] for key in ("temperature", "top_p", "top_k", "min_p") if key in body})
    rows = SamplingRows.of([plain])
    chance, last = np.random.default_rng(body.get("seed", 0)), body["prompt"][-1]
    for count in range(1, body["max_tokens"] + 1):
        found = draw(LOGITS[last : last + 1], rows, chance.random(1))
        raw = score(LOGITS[last : last + 1], found.token_ids, Sampling()).logprobs
        last = int(found.token_ids[0])
        is_stop = last in body.get("stop_token_ids", ())
        finish = "stop" if is_stop else "length" if count == body["max_tokens"] else None
        yield last, float(found.logprobs[0]), float(raw[0]), finish
        if is_stop:
            return


def answerer(lacks: frozenset[str]):
    class Answers(BaseHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

        def do_GET(self):
            models = [{"id": "tiny", "max_model_len": 64}]
            if "one model" in lacks:
                models.append({"id": "other"})
            self.tell(200, {"data": models})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "prompts of ids" in lacks:
                self.tell(400, {"error": "prompt should be text"})
            elif body.get("stream"):
                self.stream(body)
            else:
                self.tell(200, {"choices": [self.choice(list(drawn(body)), body)]})

        def choice(self, tokens, body):
            place = 2 if "sampled logprobs" in lacks else 1
            choice = {
                "text": "",
                "finish_reason": tokens[-1][3],
                "logprobs": {"token_logprobs": [one[place] for one in tokens]},
                "token_ids": [one[0] for one in tokens],
            }
            if "token ids" in lacks:
                del choice["token_ids"]
            if "logprobs" in lacks:
                choice["logprobs"] = None
            if body.get("prompt_logprobs") is not None:
                choice["prompt_logprobs"] = self.prompt(body["prompt"], body["prompt_logprobs"])
            return choice

        def prompt(self, tokens, top_k):
            rows = reference(0, np.array(tokens))
            return [None] + [
                {str(t): {"logprob": float(row[t])} for t in {given, *np.argsort(-row)[:top_k].tolist()}}
                for row, given in zip(rows, tokens[1:], strict=True)
            ]

        def stream(self, body):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for count, token in enumerate(drawn(body)):
                    if "staying power" in lacks and count == 3:
                        return
                    if "speed" in lacks and count == 3:
                        time.sleep(10)
                    self.wfile.write(
                        b"data: " + json.dumps({"choices": [self.choice([token], body)]}).encode() + b"\n\n"
                    )
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                pass

        def tell(self, status, answer):
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Answers


class ManyCallers(ThreadingHTTPServer):
    """As many may knock at once as the battery sends."""

    request_queue_size = 256
    daemon_threads = True


@contextmanager
def serving(*lacks: str) -> Generator[str]:
    """The address of a server that lacks these."""
    with ManyCallers(("127.0.0.1", 0), answerer(frozenset(lacks))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
    assert VOCAB == 64
