"""A service without vLLM: the real loop and protocol around a table of bigrams; run as a script, like the real one.

A file `fault` beside the weights orders an accident.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from rollwright.engines.sampling import SamplingRows, distribution, draw
from rollwright.record import Sampling

SERVICE = Path(__file__).parents[3] / "src" / "rollwright" / "engines" / "served" / "service.py"
spec = importlib.util.spec_from_file_location("service", SERVICE)
assert spec is not None and spec.loader is not None
service = importlib.util.module_from_spec(spec)
sys.modules["service"] = service
spec.loader.exec_module(service)


def tables(body):
    size = int.from_bytes(body[:8], "little")
    for name, one in json.loads(body[8 : 8 + size]).items():
        low, high = one["data_offsets"]
        yield name, np.frombuffer(body[8 + size + low : 8 + size + high], np.float32).reshape(one["shape"])


class FakeBackend:
    def __init__(self, settings):
        folder = Path(settings["folder"])
        fault = folder / "fault"
        self.fault = fault.read_text() if fault.is_file() else ""
        if self.fault == "no memory":
            raise MemoryError("no memory for the model")
        self.weights = dict(tables((folder / "model.safetensors").read_bytes()))
        shapes = {name: list(table.shape) for name, table in self.weights.items()}
        self.facts = {"vocab": len(self.weights["table"]), "shapes": shapes, "is_tied": False, "about": {}}
        self.most = settings["num_slots"]
        self.turns = {}
        self.scores = {}
        self.steps = 0

    def add(self, number, turn, salt):
        rows = SamplingRows.of([Sampling(**{k: turn[k] for k in ("temperature", "top_p", "top_k", "min_p")})])
        self.turns[number] = [turn, rows, np.random.default_rng(turn["seed"]), turn["prompt"][-1], 0]

    def add_score(self, number, prompt, top_k):
        self.scores[number] = (prompt, top_k)

    def abort(self, number):
        self.turns.pop(number, None)
        self.scores.pop(number, None)

    def step(self):
        self.steps += 1
        if self.fault == "dies" and self.steps > 3:
            os._exit(9)
        if self.fault == "fails" and self.steps > 3:
            raise RuntimeError("out of memory")
        return [*self._scored(), *self._drawn()]

    def _scored(self):
        for number, (prompt, top_k) in list(self.scores.items()):
            del self.scores[number]
            rows = SamplingRows.of([Sampling()] * (len(prompt) - 1))
            full = distribution(self.logits(prompt[:-1]), rows)
            best = np.argsort(-full, axis=1)[:, :top_k]
            yield service.Stepped(
                number=number,
                scored=service.Scored(
                    logprobs=full[np.arange(len(full)), prompt[1:]],
                    best_ids=best,
                    best_logprobs=np.take_along_axis(full, best, axis=1),
                ),
            )

    def _drawn(self):
        time.sleep(0.0005)
        for number, state in list(self.turns.items())[: self.most]:
            turn, rows, chance, last, count = state
            drawn = draw(self.logits([last]), rows, chance.random(1))
            token = int(drawn.token_ids[0])
            state[3:] = token, count + 1
            finish = "stop_token" if token in turn["stop"] else "length" if count + 1 >= turn["max_tokens"] else None
            if finish is not None:
                del self.turns[number]
            yield service.Stepped(number, [token], [float(drawn.logprobs[0])], finish)

    def logits(self, last):
        return self.weights["table"][np.asarray(last)] + self.weights["bias"]

    def install(self, names, body):
        new = dict(tables(body))
        if self.fault == "breaks":
            raise RuntimeError("half of the weights were laid out")
        for name in names:
            if self.fault != f"skips {name}":
                self.weights[name] = new[name]

    def forget(self, running):
        pass


if __name__ == "__main__":
    code = service.serve(FakeBackend)
    os._exit(code)
