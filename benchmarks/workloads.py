"""What is measured: shapes, sizes, seeds and model folders, the same for every side.

    python -m benchmarks.workloads [MODEL ...]

makes the named model folders (by default those of a CPU) in `benchmarks/.cache/`, once. Importing this file takes the
standard library alone, so that another interpreter can read the numbers; models are made by the project's own.
"""

import hashlib
import json
import math
import os
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "CACHE",
    "LONG_TAIL",
    "MODELS",
    "WORKLOADS",
    "LogNormal",
    "Workload",
    "model_folder",
    "prompt_ids",
    "prompts",
    "reward_of",
]

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "benchmarks" / ".cache"
TEMPLATE_TOKENS = 8
"""Of the tokenizer of `tiny`: what the chat template puts around a question."""


@dataclass(frozen=True)
class LogNormal:
    """Lengths whose logarithm is normal."""

    mean: float
    sigma: float
    limit: int

    @property
    def mu(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2

    def survival(self, length: float) -> float:
        """The chance of being longer."""
        return 0.5 * math.erfc((math.log(length) - self.mu) / (self.sigma * math.sqrt(2))) if length > 0 else 1.0

    def hazards(self) -> list[float]:
        """The chance that a completion ends with its n-th token, given that it came so far; n from 1 to the limit."""
        return [1 - self.survival(n + 0.5) / self.survival(n - 0.5) for n in range(1, self.limit + 1)]

    def draw(self, count: int, seed: int) -> list[int]:
        """Whole lengths from 1 to the limit, for workloads whose lengths are given and not sampled by a model."""
        chance = random.Random(seed)
        return [min(self.limit, max(1, round(chance.lognormvariate(self.mu, self.sigma)))) for _ in range(count)]


@dataclass(frozen=True)
class Workload:
    """One step of training."""

    name: str
    title: str
    model: str
    completions: int
    group_size: int
    prompt_tokens: int
    """With what the chat template adds."""
    max_tokens: int
    """Of one completion."""
    learning_rate: float
    counted: int
    """Steps of a repetition, which tells their mean."""
    seed: int = 0

    @property
    def groups(self) -> int:
        return self.completions // self.group_size

    @property
    def context_tokens(self) -> int:
        return self.prompt_tokens + self.max_tokens


LONG_TAIL = LogNormal(mean=60, sigma=1.0, limit=512)
"""Lengths of workload (c), and of mixed lengths where an engine is measured alone."""
# So small that neither lengths nor rewards drift while it is measured; the work is that of any other rate.
_RATE = 1e-9
WORKLOADS = {
    "a": Workload("a", "single turn, short", "tiny", 64, 8, 32, 64, _RATE, 3),
    "b": Workload("b", "long shared prompt", "tiny", 64, 16, 500, 32, _RATE, 2),
    "c": Workload("c", "long tail", "tiny-long-tail", 64, 8, 32, 512, _RATE, 3),
}

TINY: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_layers": 4,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_size": 48,
    "max_positions": 2048,
}
"""1.72M parameters, Qwen3's shape; the arguments of `rollwright.learner.models.ModelShape`."""
HALF_BILLION: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
"""The shape of Qwen2.5-0.5B."""
MODELS = ("tiny", "tiny-long-tail", "smollm2-135m", "0.5b")
ON_CPU = ("tiny", "tiny-long-tail")


def prompts(workload: Workload) -> list[str]:
    """A question of digits for each group; a digit is one token."""
    chance = random.Random(f"prompts {workload.name} {workload.seed}")
    digits = workload.prompt_tokens - TEMPLATE_TOKENS
    return ["".join(chance.choices("0123456789", k=digits)) for _ in range(workload.groups)]


def prompt_ids(workload: Workload, folder: Path) -> list[list[int]]:
    """The prompts as the tokenizer of a model folder and its chat template make them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    turns = [[{"role": "user", "content": prompt}] for prompt in prompts(workload)]
    return tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)


def reward_of(text: str) -> float:
    """0 or 1 by a hash of the text: attempts at one prompt differ, and nothing can be learned."""
    return float(hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % 2)


def model_folder(name: str) -> Path:
    """The folder of a model with its tokenizer, made now if it was never made."""
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(MODELS)}.")
    folder = CACHE / "models" / name
    if not (folder / "config.json").is_file():
        part = folder.with_name(f"{name}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _make(name, part)
        try:
            part.rename(folder)
        except OSError:  # Another process made it meanwhile.
            shutil.rmtree(part)
    return folder


def _make(name: str, folder: Path) -> None:
    if name == "smollm2-135m":
        _save_packaged(folder)
        return
    if name == "0.5b":
        from transformers import Qwen2Config, Qwen2ForCausalLM

        _tokenizer(folder, size=HALF_BILLION["vocab_size"])
        import torch

        torch.manual_seed(0)
        Qwen2ForCausalLM(Qwen2Config(**HALF_BILLION, eos_token_id=2, pad_token_id=0)).bfloat16().save_pretrained(folder)
        return
    from rollwright.learner.models import ModelShape, make_model, save_model

    _tokenizer(folder, size=TINY["vocab_size"])
    model = make_model(ModelShape(**TINY, eos_token_id=2, pad_token_id=0), seed=0)
    if name == "tiny-long-tail":
        from benchmarks.fitting import fit_lengths

        fit_lengths(model, LONG_TAIL, prompt_ids(WORKLOADS["c"], folder))
    save_model(model, folder)


def _tokenizer(folder: Path, *, size: int) -> None:
    """A byte-level tokenizer of exactly `size` tokens: beyond what is merged there are words that nothing encodes."""
    from rollwright.rendering import TokenizerSpec, train_tokenizer

    train_tokenizer(_texts(), TokenizerSpec(vocab_size=min(size, TINY["vocab_size"]), model_max_tokens=4096), folder)
    file = folder / "tokenizer.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    words = written["model"]["vocab"]
    for number in range(len(words), size):
        words[f"w{number:06d}"] = number
    file.write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")


def _texts() -> Iterator[str]:
    """Made-up words, enough of them to fill a small vocabulary."""
    chance = random.Random("texts")
    syllables = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "lnrst"]
    for _ in range(4000):
        yield " ".join("".join(chance.choices(syllables, k=2)) for _ in range(8))


def _save_packaged(folder: Path) -> None:
    """SmolLM2-135M-Instruct out of its package, dequantized, as an ordinary folder."""
    from rollwright.learner.models import load_gguf, save_model
    from rollwright.recipes.build.model import weights_path
    from rollwright.recipes.config.model import PackagedModelConfig
    from rollwright.rendering import copy_tokenizer

    file = weights_path(PackagedModelConfig())
    save_model(load_gguf(file), folder)
    copy_tokenizer(file, folder)


def main(names: Sequence[str]) -> None:
    for name in names or ON_CPU:
        print(f"{name}: {model_folder(name)}", flush=True)
    print(json.dumps({name: asdict(workload) for name, workload in WORKLOADS.items()}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
