"""The bare matrix products of a step's live tokens: what no implementation can leave out.

    python -m benchmarks.floor --workload a [--threads 1] [--device cpu] [--dtype float32]     (a worker)
    python -m benchmarks.floor --of benchmarks/results/tools_trl.json [--json FILE]

Every product with a weight, at the shapes and the precision of the step, and nothing else. Each prompt is live once:
it is prefilled once for its group, and gone through once in the update. Sampling multiplies the rows that are still
running, token by token; the update multiplies all of its tokens at once, and twice again for the gradients of inputs
and weights. Attention, norms, sampling itself, the optimizer and all bookkeeping take no time at all here.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.paired import serve
from benchmarks.report import Report, Row, machine, table, write_report
from benchmarks.workloads import HALF_BILLION, LONG_TAIL, TINY, WORKLOADS, Workload

__all__ = ["Floor", "Linear", "LiveTokens", "linears_of", "lengths_of"]


@dataclass(frozen=True)
class Linear:
    """A weight."""

    inputs: int
    outputs: int


@dataclass(frozen=True)
class LiveTokens:
    """What is gone through in a step."""

    prompts: Sequence[int]
    """Tokens of each prompt, once for its group."""
    sampled: Sequence[int]
    """Tokens of each completion."""
    observed: int = 0
    """Tokens in all that a tool said: read once while sampling, and once in the update."""


def linears_of(shape: dict[str, int]) -> tuple[list[Linear], Linear]:
    """The products of all layers, where those that share an input are one, and of the head.

    Args:
        shape: as `ModelShape` is given it.
    """
    hidden, inner, head = shape["hidden_size"], shape["intermediate_size"], shape["head_size"]
    queries = shape["num_heads"] * head
    states = queries + 2 * shape["num_kv_heads"] * head
    layer = [Linear(hidden, states), Linear(queries, hidden), Linear(hidden, 2 * inner), Linear(inner, hidden)]
    return layer * shape["num_layers"], Linear(hidden, shape["vocab_size"])


def lengths_of(workload: Workload) -> list[int]:
    """Lengths as a step samples them: log-normal where the model was fitted to that, or one end in 512 tokens."""
    if workload.model == "tiny-long-tail":
        return LONG_TAIL.draw(workload.completions, workload.seed)
    chance = random.Random(workload.seed)
    drawn = [1 + int(chance.expovariate(1 / TINY["vocab_size"])) for _ in range(workload.completions)]
    return [min(workload.max_tokens, length) for length in drawn]


class Floor:
    """The products of one step; inputs are made once."""

    def __init__(self, layers: Sequence[Linear], head: Linear, live: LiveTokens, like: Tensor) -> None:
        """`like` is any tensor of the device and the precision that is asked for."""
        self._layers, self._head = layers, head
        longest = max(live.sampled)
        self._running = [sum(length > at for length in live.sampled) for at in range(longest)]
        self._read = sum(live.prompts) + live.observed
        self._trained = sum(live.sampled)
        tokens = self._read + self._trained
        widths = {width for linear in layers for width in (linear.inputs, linear.outputs)}
        self._states = {width: like.new_empty(tokens, width).normal_() for width in widths}
        if head.outputs not in widths:
            self._states[head.outputs] = like.new_empty(self._trained, head.outputs).normal_()
        self._weights = [like.new_empty(linear.outputs, linear.inputs).normal_() for linear in (*layers, head)]
        self._prompts = len(live.prompts)

    def step(self) -> None:
        """Prefill, sample, and go forward and backward once."""
        self._forward(self._read, self._prompts)
        for rows in self._running:
            self._forward(rows, rows)
        tokens = self._read + self._trained
        self._forward(tokens, self._trained)
        for linear, weight in zip((*self._layers, self._head), self._weights, strict=True):
            rows = self._trained if linear is self._head else tokens
            given, gradient = self._states[linear.inputs][:rows], self._states[linear.outputs][:rows]
            torch.mm(gradient, weight)
            torch.mm(gradient.t(), given)

    def _forward(self, tokens: int, scored: int) -> None:
        for linear, weight in zip((*self._layers, self._head), self._weights, strict=True):
            rows: Tensor = self._states[linear.inputs][: scored if linear is self._head else tokens]
            torch.mm(rows, weight.t())


def shape_of(model: str) -> dict[str, int]:
    if model != "0.5b":
        return TINY
    return {
        **HALF_BILLION,
        "num_layers": HALF_BILLION["num_hidden_layers"],
        "num_heads": HALF_BILLION["num_attention_heads"],
        "num_kv_heads": HALF_BILLION["num_key_value_heads"],
        "head_size": HALF_BILLION["hidden_size"] // HALF_BILLION["num_attention_heads"],
    }


def rows_of_tool_episodes(file: Path, repetitions: int) -> list[Row]:
    """Steps of tool episodes over their floor, from the report of `benchmarks.tools_trl`.

    Tokens that a tool said are those by which the sequences of TRL's side exceed what rollwright sampled. Prompts are
    left out and rows are taken as equally long, so this floor is a little too low, and the multiples of it too high.
    """
    about: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))["about"]
    plan, rows = about["plan"], list[Row]()
    episodes, steps = plan["episodes"]["batch_size"], plan["steps"]["counted"]
    for model, raw in about["raw"].items():
        sides = raw["sides"]
        ours, peer = (statistics.fmean(c["tokens"] for c in sides[s]["counts"]) / steps for s in ("rollwright", "trl"))
        shape = {**plan["models"][model], "vocab_size": plan["warm_start"]["vocabulary_tokens"]}
        live = LiveTokens([0], [max(1, round(ours / episodes))] * episodes, observed=max(0, round(peer - ours)))
        seconds = statistics.median(timed(Floor(*linears_of(shape), live, torch.empty(0)), repetitions))
        for side in ("rollwright", "trl"):
            taken = sides[side]["median_wall_s"] / steps
            rows.append(
                Row(
                    what=f"(d) tool episodes, {model}: {side} over the floor",
                    ours=taken,
                    peer=seconds,
                    ratio=taken / seconds,
                    unit="s",
                    target_side="at_most",
                    note="the floor without prompts, not in turns with the sides",
                )
            )
    return rows


def timed(floor: Floor, repetitions: int) -> list[float]:
    """Seconds of each repetition, after two that do not count."""
    taken: list[float] = []
    with torch.inference_mode():
        for _ in range(repetitions + 2):
            began = time.perf_counter()
            floor.step()
            taken.append(time.perf_counter() - began)
    return taken[2:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked_for = parser.add_mutually_exclusive_group(required=True)
    asked_for.add_argument("--workload", choices=sorted(WORKLOADS), help="be a worker")
    asked_for.add_argument("--of", type=Path, help="a report of benchmarks.tools_trl")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.of is not None:
        rows = rows_of_tool_episodes(asked.of, repetitions=7)
        print("\n".join(table(rows)))
        if asked.json is not None:
            write_report(
                Report(name="floor", rows=tuple(rows), about={**machine(), "threads": asked.threads}), asked.json
            )
        return
    work = WORKLOADS[asked.workload]
    lengths = lengths_of(work)
    live = LiveTokens([work.prompt_tokens] * work.groups, lengths)
    like = torch.empty(0, device=asked.device, dtype=torch.float32 if asked.dtype == "float32" else torch.bfloat16)
    floor = Floor(*linears_of(shape_of(asked.model)), live, like)

    def repeat() -> dict[str, float]:
        with torch.inference_mode():
            floor.step()
        if like.is_cuda:
            torch.cuda.synchronize()
        return {"tokens": sum(lengths)}

    serve(repeat, {"torch": torch.__version__, "threads": asked.threads, "products": "bare", "dtype": asked.dtype})


if __name__ == "__main__":
    main()
