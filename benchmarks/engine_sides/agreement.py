"""How far the log-probabilities of the engine are from those of plain `transformers` in float32.

    python -m benchmarks.engine_sides.agreement mixed-8

prints, for each precision offered, the largest and the mean absolute difference in nats over the drawn tokens.
"""

import asyncio
import json
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from benchmarks.engine_sides.cases import CASES, Case, Requested, rounds
from benchmarks.engine_sides.ours import SETTINGS, opened, request_of
from benchmarks.workloads import model_folder

__all__: list[str] = []


def differences(case: Case, mode: str) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(model_folder(case.model), dtype=torch.float32).eval()
    engine = opened(case, mode)

    async def one(requested: Requested, name: str) -> np.ndarray:
        chunks = [chunk async for chunk in engine.generate(request_of(requested, name, name))]
        tokens = [*requested.prompt, *(int(token) for chunk in chunks for token in chunk.token_ids)]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens])).logits[0].double()
        start = len(requested.prompt)
        scores = torch.log_softmax(logits[start - 1 : -1], dim=-1)
        expected = scores[torch.arange(len(scores)), torch.tensor(tokens[start:])].numpy()
        return np.abs(np.concatenate([chunk.behavior_logprobs for chunk in chunks]) - expected)

    async def everyone() -> np.ndarray:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(asked, str(i))) for i, asked in enumerate(next(rounds(case)))]
        found = [task.result() for task in tasks]
        await engine.close()
        return np.concatenate(found)

    return asyncio.run(everyone())


def main(case: Case) -> None:
    found = {}
    for mode in SETTINGS:
        gaps = differences(case, mode)
        found[mode] = {"max": float(gaps.max()), "mean": float(gaps.mean()), "tokens": len(gaps)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(CASES[sys.argv[1]])
