"""vLLM's CPU build, started once for all cases; run by the interpreter of its own environment.

    .venv-vllm/bin/python -m benchmarks.engine_sides.vllm_cpu SOCKET 512 64

It listens at SOCKET, with room for contexts of 512 tokens and 64 requests at once. Who connects writes the name of a
case, and then speaks as `benchmarks.paired` says, by way of `benchmarks.engine_sides.vllm_relay`. Times are taken here.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from benchmarks.engine_sides.cases import CASES, Case, rounds
from benchmarks.workloads import model_folder

__all__: list[str] = []

MODEL = "tiny"
# Read by vLLM when it is imported.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def say(lines: TextIO, message: Mapping[str, object]) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def be_side(llm: Any, case: Case, lines: TextIO, about: Mapping[str, object]) -> None:
    """One case, until its end."""
    from vllm import SamplingParams  # type: ignore[import-not-found] - it lives in an environment of its own
    from vllm.inputs import TokensPrompt  # type: ignore[import-not-found] - likewise

    asked = rounds(case)
    say(lines, {"ready": True, "about": dict(about)})
    while (line := lines.readline()).strip() and json.loads(line)["do"] == "repeat":
        wall, cpu = time.perf_counter(), time.process_time()
        requests = next(asked)
        prompts = [TokensPrompt(prompt_token_ids=list(one.prompt)) for one in requests]
        rules = [
            SamplingParams(max_tokens=one.new_tokens, ignore_eos=True, logprobs=0, detokenize=False) for one in requests
        ]
        found = llm.generate(prompts, rules, use_tqdm=False)
        drawn = [len(one.outputs[0].token_ids) for one in found]
        assert drawn == [one.new_tokens for one in requests], drawn
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        say(lines, {"wall_s": wall, "cpu_s": cpu, "counts": {"tokens": case.tokens}})


def main(address: str, context_tokens: int, slots: int) -> None:
    import torch
    import vllm  # type: ignore[import-not-found] - likewise
    from vllm import LLM  # type: ignore[import-not-found] - likewise

    llm = LLM(
        model=str(model_folder(MODEL)),
        dtype="float32",
        max_model_len=context_tokens,
        max_num_seqs=slots,
        seed=0,
        skip_tokenizer_init=True,
        disable_log_stats=True,
    )
    about = {"vllm": vllm.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", encoding="utf-8") as lines:
                be_side(llm, CASES[lines.readline().strip()], lines, about)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
