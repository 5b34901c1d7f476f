"""Milliseconds of a publication to the embedded engine, by swap, and what it takes from the turns that run.

    python -m benchmarks.publication [--threads 1] [--rows 16] [--rounds 20] [--json FILE]

The model has about five million parameters. A publication is what the loop waits for: the learner's digests of its
weights, and the engine's reading, checking, laying out and serving of them. The stall is the longest time between two
tokens of a running turn around it, beside the same without a publication. The variants are run in turns, so that what
else the machine does falls on all of them; the median and the best of the rounds are shown. On a machine that is busy
the time of the processor says more than that by the clock.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.report import Report, Row, machine, versions, write_report
from rollwright.engines.embedded import EmbeddedEngine, EmbeddedSettings, open_engine
from rollwright.learner.state import named_weights, tensor_specs
from rollwright.record import GenerationRequest, Sampling, Swap, WeightsManifest, ids
from rollwright.runtime.weights import PublicationRule, WeightChannel, WeightShelf

PROMPT_TOKENS = 64
TURN_TOKENS = 400
SWAPS: tuple[Swap, ...] = get_args(Swap)


@dataclass
class StillLearner:
    """A learner that only publishes."""

    model: Qwen3ForCausalLM

    def weights(self) -> Mapping[str, Tensor]:
        return named_weights(self.model)

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        return WeightsManifest(
            policy="policy",
            version=version,
            update=update,
            kind="full",
            base_version=None,
            location=f"memory:{version}",
            tensors=tensor_specs(self.weights()),
        )

    def snapshot(self) -> None:
        raise NotImplementedError(Path)


@dataclass
class Times:
    """Milliseconds, one entry a round."""

    publication: list[float] = field(default_factory=list[float])
    processor: list[float] = field(default_factory=list[float])
    """Of all threads during the publication."""
    stall: list[float] = field(default_factory=list[float])

    def line(self, name: str) -> str:
        columns = (self.publication, self.processor, self.stall)
        parts = [f"{statistics.median(times):8.1f} {min(times):8.1f}" if times else " " * 17 for times in columns]
        return f"{name:30} {'  '.join(parts)}".rstrip()


def make_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=2048,
        hidden_size=288,
        intermediate_size=768,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=48,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).eval()


async def turn(engine: EmbeddedEngine, number: int, gaps: list[float]) -> None:
    """One long turn, token by token; the times between its tokens."""
    prompt = np.random.default_rng(number // 8).integers(0, 2048, PROMPT_TOKENS)
    request = GenerationRequest(
        request_id=f"r{number}",
        policy="policy",
        session=f"s{number}",
        context=0,
        share=f"g{number // 8}",
        token_ids=ids(prompt),
        sampling=Sampling(),
        max_tokens=TURN_TOKENS,
        deadline_s=600,
        seed=number,
        stop_token_ids=frozenset(),
        chunk_tokens=1,
    )
    last: float | None = None
    try:
        async for _ in engine.generate(request):
            now = time.perf_counter()
            if last is not None:
                gaps.append((now - last) * 1000)
            last = now
    finally:
        await engine.release(request.session)


async def have_grown(gaps: list[list[float]], sizes: list[int]) -> None:
    """Until every turn has drawn twenty tokens more."""
    while min(len(gap) - size for gap, size in zip(gaps, sizes, strict=True)) < 20:  # noqa: ASYNC110 - no event for it
        await asyncio.sleep(0.001)


class Bench:
    """An engine, its channels, and running numbers."""

    def __init__(self, options: argparse.Namespace, thread: ThreadPoolExecutor) -> None:
        self.rows = options.rows
        self.model = make_model()
        shelf = WeightShelf()
        settings = EmbeddedSettings(num_slots=options.rows, max_context_tokens=PROMPT_TOKENS + TURN_TOKENS, mode="fast")
        self.engine = open_engine(self.model, settings, shelf.read)
        learner = StillLearner(self.model)
        self.channels = {
            swap: WeightChannel(learner, self.engine, shelf, thread, rule=PublicationRule(swap=swap)) for swap in SWAPS
        }
        self.version = 0
        self.number = 0

    async def publish(self, swap: Swap) -> tuple[float, float]:
        """Milliseconds by the clock, and of the processor."""
        self.version += 1
        start, spent = time.perf_counter(), time.process_time()
        await self.channels[swap].publish(version=self.version, update=self.version)
        return (time.perf_counter() - start) * 1000, (time.process_time() - spent) * 1000

    async def among_turns(self, swap: Swap | None, times: Times) -> None:
        """Publish while every place draws; with None only the turns run."""
        gaps: list[list[float]] = [[] for _ in range(self.rows)]
        running: list[asyncio.Future[None]] = []
        for row in range(self.rows):
            self.number += 1
            running.append(asyncio.ensure_future(turn(self.engine, self.number, gaps[row])))
        await have_grown(gaps, [0] * self.rows)
        before = [len(gap) for gap in gaps]
        if swap is not None:
            times.publication.append((await self.publish(swap))[0])
        await have_grown(gaps, [len(gap) for gap in gaps])
        times.stall.append(max(max(gap[size - 1 :]) for gap, size in zip(gaps, before, strict=True)))
        for task in running:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*running)


async def measure(options: argparse.Namespace, thread: ThreadPoolExecutor) -> dict[str, Times]:
    bench = Bench(options, thread)
    count = sum(parameter.numel() for parameter in bench.model.parameters())
    print(f"{count / 1e6:.2f} million parameters, {options.rows} rows, {options.threads} threads of torch")
    found = {name: Times() for name in ("turns without a publication", *(f"{s}, nothing runs" for s in SWAPS))}
    found |= {f"{swap}, turns run": Times() for swap in SWAPS if swap != "drain"}
    for _ in range(options.rounds):
        for swap in SWAPS:
            by_clock, of_processor = await bench.publish(swap)
            found[f"{swap}, nothing runs"].publication.append(by_clock)
            found[f"{swap}, nothing runs"].processor.append(of_processor)
        await bench.among_turns(None, found["turns without a publication"])
        for swap in SWAPS:
            if swap != "drain":  # It would wait for the turns to end.
                await bench.among_turns(swap, found[f"{swap}, turns run"])
    await bench.engine.close()
    return found


def rows_of(found: Mapping[str, Times]) -> list[Row]:
    """Medians in milliseconds; a stall beside the longest gap of turns without a publication."""
    rows: list[Row] = []
    still = statistics.median(found["turns without a publication"].stall)
    for name, times in found.items():
        if times.publication:
            low, high = min(times.publication), max(times.publication)
            note = f"{low:.1f} to {high:.1f} ms"
            ours = statistics.median(times.publication)
            rows.append(Row(what=f"publication, {name}", ours=ours, peer=None, ratio=None, unit="ms", note=note))
        if times.stall and times.publication:
            stall = statistics.median(times.stall)
            what, note = f"longest gap, {name}", "beside the same without a publication"
            rows.append(Row(what=what, ours=stall, peer=still, ratio=None, unit="ms", note=note))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner") as thread:
        found = asyncio.run(measure(options, thread))
    print(f"{'':30} {'by the clock, ms':>17}  {'of processor, ms':>17}  {'longest gap, ms':>17}")
    print(f"{'':30} " + "  ".join([f"{'median':>8} {'best':>8}"] * 3))
    for name, times in found.items():
        print(times.line(name))
    if options.json:
        about = {**machine(), "threads": options.threads, "versions": versions("torch", "numpy")}
        write_report(Report(name="publication", rows=tuple(rows_of(found)), about=about), options.json)


if __name__ == "__main__":
    main()
