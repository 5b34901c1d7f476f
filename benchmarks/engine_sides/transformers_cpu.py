"""`transformers` as one side: `generate`, or its continuous batching.

    python -m benchmarks.engine_sides.transformers_cpu mixed-64 generate

`generate` is called as a person would: the requests in batches of as many as the engines have slots, in the order
given, and a batch goes on until its longest request has all its tokens, since that is how it works. It is not asked for
log-probabilities. Continuous batching is given each request with its own number of tokens.
"""

import sys
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

from benchmarks.engine_sides.cases import CASES, Case, Requested, rounds
from benchmarks.paired import serve
from benchmarks.workloads import model_folder

__all__: list[str] = []


def by_generate(model: Any, case: Case, requests: list[Requested]) -> None:
    for low in range(0, len(requests), case.slots):
        batch = requests[low : low + case.slots]
        prompts = torch.tensor([one.prompt for one in batch])
        longest = max(one.new_tokens for one in batch)
        config = GenerationConfig(
            max_new_tokens=longest, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, use_cache=True
        )
        found = model.generate(prompts, attention_mask=torch.ones_like(prompts), generation_config=config)
        assert found.shape[1] == case.prompt_tokens + longest, found.shape


def by_continuous_batching(model: Any, case: Case, requests: list[Requested]) -> None:
    config = GenerationConfig(
        max_new_tokens=max(one.new_tokens for one in requests),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        eos_token_id=-1,
        pad_token_id=0,
        num_blocks=case.slots * (case.context_tokens // 32 + 2),
        max_batch_tokens=max(512, case.slots),
    )
    manager = model.init_continuous_batching(generation_config=config)
    manager.start()
    try:
        for one in requests:
            manager.add_request(list(one.prompt), max_new_tokens=one.new_tokens)
        left = len(requests)
        while left:
            found = manager.get_result(timeout=120)
            if found is None:
                raise RuntimeError(f"{left} of {len(requests)} requests were not finished; its thread has ended.")
            left -= found.is_finished()
    finally:
        manager.stop(block=True)


WAYS = {"generate": by_generate, "continuous": by_continuous_batching}


def main(case: Case, way: str) -> None:
    attention: Mapping[str, str] = {"attn_implementation": "sdpa"} if way == "continuous" else {}
    model = AutoModelForCausalLM.from_pretrained(model_folder(case.model), dtype=torch.float32, **attention).eval()
    model.generation_config.eos_token_id = None
    model.config.eos_token_id = None
    asked = rounds(case)

    @torch.inference_mode()
    def repeat() -> dict[str, int]:
        WAYS[way](model, case, next(asked))
        return {"tokens": case.tokens}

    about = {"transformers": transformers.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    serve(repeat, about)


if __name__ == "__main__":
    main(CASES[sys.argv[1]], sys.argv[2])
