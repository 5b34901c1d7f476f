"""Tokens a second of the embedded engine, beside `transformers` generate on the same weights.

    python benchmarks/engine.py [--threads 2] [--rows 64] [--tokens 64] [--prompt 64] [--model small|default]

The variants are run in turns, so that what else the machine does falls on all of them; the best of the rounds counts.
"""

import argparse
import asyncio
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import PreTrainedModel

from rollwright.engines.embedded import EmbeddedEngine, EmbeddedSettings, open_engine
from rollwright.learner.models import ModelShape, make_model
from rollwright.record import GenerationRequest, Sampling, ids

SHAPES = {
    "1.72M": ModelShape(
        vocab_size=512, hidden_size=192, intermediate_size=512, num_layers=4, num_heads=4, num_kv_heads=2
    ),
    "0.65M": ModelShape(
        vocab_size=512, hidden_size=128, intermediate_size=320, num_layers=3, num_heads=4, num_kv_heads=2
    ),
}


def time_transformers(model: PreTrainedModel, options: argparse.Namespace) -> Callable[[], float]:
    prompts = torch.randint(2, 512, (options.rows, options.prompt), generator=torch.Generator().manual_seed(0))

    def run() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(  # type: ignore[attr-defined] - its mixin asks for attributes of other models
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=options.tokens,
                min_new_tokens=options.tokens,
                do_sample=True,
                top_k=0,
                pad_token_id=0,
            )
        return time.perf_counter() - start

    return run


def time_engine(engine: EmbeddedEngine, options: argparse.Namespace) -> Callable[[], float]:
    rng = np.random.default_rng(0)
    prompts = rng.integers(0, 512, (options.rows, options.prompt))
    counter = iter(range(10**9))

    async def one(row: int) -> None:
        number = next(counter)
        request = GenerationRequest(
            request_id=f"r{number}",
            policy="policy",
            session=f"s{number}",
            context=0,
            share=f"g{number}" if options.group == 1 else f"g{number // options.group}",
            token_ids=ids(prompts[row // options.group]),
            sampling=Sampling(),
            max_tokens=options.tokens,
            deadline_s=600,
            seed=number,
            stop_token_ids=frozenset(),
        )
        async for _ in engine.generate(request):
            pass
        await engine.release(request.session)

    async def everyone() -> None:
        async with asyncio.TaskGroup() as group:
            for row in range(options.rows):
                group.create_task(one(row))

    def run() -> float:
        start = time.perf_counter()
        asyncio.run(everyone())
        return time.perf_counter() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--group", type=int, default=8, help="rows that share a prompt")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--model", choices=sorted(SHAPES), default="1.72M")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = make_model(SHAPES[options.model], seed=0)
    context = options.prompt + options.tokens
    variants = {"transformers generate": time_transformers(model, options)}
    engines: dict[str, EmbeddedEngine] = {}
    for mode in ("deterministic", "fast"):
        start = time.perf_counter()
        settings = EmbeddedSettings(num_slots=options.rows, max_context_tokens=max(512, context), mode=mode)
        engines[mode] = open_engine(model, settings, lambda manifest: {})
        print(f"opened {mode} in {time.perf_counter() - start:.1f} s")
        variants[f"embedded, {mode}"] = time_engine(engines[mode], options)
    best = {name: min(run() for _ in range(1)) for name, run in variants.items()}
    for _ in range(options.rounds):
        for name, run in variants.items():
            best[name] = min(best[name], run())
    for name, seconds in best.items():
        print(f"{name:28} {options.rows * options.tokens / seconds:10,.0f} tokens/s")
    for engine in engines.values():
        asyncio.run(engine.close())


if __name__ == "__main__":
    main()
