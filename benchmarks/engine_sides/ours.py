"""The embedded engine as one side: the whole of it, with its thread and its face for an event loop.

python -m benchmarks.engine_sides.ours mixed-64 deterministic
"""

import asyncio
import sys
from dataclasses import replace

import torch
from transformers import AutoModelForCausalLM

from benchmarks.engine_sides.cases import CASES, Case, Requested, rounds
from benchmarks.paired import serve
from benchmarks.workloads import model_folder
from rollwright.engines.embedded import EmbeddedEngine, EmbeddedSettings, open_engine
from rollwright.record import GenerationRequest, Sampling, ids

__all__ = ["SETTINGS", "opened", "request_of"]

SETTINGS = {
    "deterministic": EmbeddedSettings(mode="deterministic", dtype="float32"),
    "fast": EmbeddedSettings(mode="fast", dtype="float32"),
    "fast-bf16": EmbeddedSettings(mode="fast", dtype="bfloat16"),
}


def opened(case: Case, mode: str) -> EmbeddedEngine:
    model = AutoModelForCausalLM.from_pretrained(model_folder(case.model), dtype=torch.float32)
    settings = replace(SETTINGS[mode], num_slots=case.slots, max_context_tokens=max(512, case.context_tokens))
    return open_engine(model, settings, lambda manifest: {})


def request_of(one: Requested, name: str, share: str) -> GenerationRequest:
    return GenerationRequest(
        request_id=name,
        policy="policy",
        session=name,
        context=0,
        share=share,
        token_ids=ids(one.prompt),
        sampling=Sampling(),
        max_tokens=one.new_tokens,
        deadline_s=3600,
        seed=hash(name) & 0xFFFF,
        stop_token_ids=frozenset(),
    )


def main(case: Case, mode: str) -> None:
    engine = opened(case, mode)
    asked = enumerate(rounds(case))

    async def one(requested: Requested, name: str, share: str) -> None:
        drawn = 0
        async for chunk in engine.generate(request_of(requested, name, share)):
            drawn += len(chunk.token_ids)
        assert drawn == requested.new_tokens, drawn
        await engine.release(name)

    async def everyone() -> None:
        number, requests = next(asked)
        async with asyncio.TaskGroup() as group:
            for i, requested in enumerate(requests):
                group.create_task(one(requested, f"{number}-{i}", f"{number}-{requested.group}"))

    def repeat() -> dict[str, int]:
        asyncio.run(everyone())
        return {"tokens": case.tokens}

    serve(repeat, {"torch": torch.__version__, "threads": torch.get_num_threads(), "mode": mode})
    asyncio.run(engine.close())


if __name__ == "__main__":
    main(CASES[sys.argv[1]], sys.argv[2])
