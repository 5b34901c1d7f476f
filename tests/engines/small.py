"""Small random models and requests for the tests of the engines."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rollwright.record import Chunk, Engine, Finish, GenerationRequest, Sampling, ids

VOCAB = 64


def small_model(family: str, *, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model with heads of 48, weights large enough to give sharp distributions, and norms that are not 1."""
    shape: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 96,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 48,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
        "initializer_range": 0.15,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    shape.update(changes)
    torch.manual_seed(seed)
    match family:
        case "qwen3":
            model = Qwen3ForCausalLM(Qwen3Config(**shape))
        case "qwen2":
            del shape["head_dim"]
            model = Qwen2ForCausalLM(Qwen2Config(**shape))
        case "llama":
            model = LlamaForCausalLM(LlamaConfig(**shape))
        case _:
            model = MistralForCausalLM(MistralConfig(**shape))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def request_of(number: int, token_ids: ArrayLike = (1, 2, 3), **changes: Any) -> GenerationRequest:
    fields: dict[str, Any] = {
        "request_id": f"r{number}",
        "policy": "policy",
        "session": f"s{number}/0",
        "context": 0,
        "share": f"g{number}",
        "token_ids": ids(token_ids),
        "sampling": Sampling(),
        "max_tokens": 8,
        "deadline_s": 60.0,
        "seed": 1000 + number,
        "stop_token_ids": frozenset({0}),
    }
    return GenerationRequest(**{**fields, **changes})


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """All chunks of a turn."""

    chunks: tuple[Chunk, ...]

    @property
    def token_ids(self) -> list[int]:
        return [int(token) for chunk in self.chunks for token in chunk.token_ids]

    @property
    def logprobs(self) -> np.ndarray:
        return np.concatenate([chunk.behavior_logprobs for chunk in self.chunks])

    @property
    def finish(self) -> Finish | None:
        return self.chunks[-1].finish


async def collect(chunks: AsyncIterator[Chunk]) -> Turn:
    return Turn(tuple([chunk async for chunk in chunks]))


async def draw(engine: Engine, request: GenerationRequest) -> Turn:
    async with asyncio.timeout(120):
        return await collect(engine.generate(request))


async def draw_all(engine: Engine, requests: Sequence[GenerationRequest]) -> list[Turn]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(draw(engine, request)) for request in requests]
    return [task.result() for task in tasks]


def plain_logprobs(
    model: PreTrainedModel, token_ids: Sequence[int], start: int, temperature: float = 1.0
) -> np.ndarray:
    """What plain `transformers` says of tokens `start`…."""
    tokens = torch.tensor(list(token_ids))
    with torch.no_grad():
        logits = model(input_ids=tokens[None]).logits[0].double()
    scores = torch.log_softmax(logits / temperature, dim=-1)
    return scores[torch.arange(start - 1, len(tokens) - 1), tokens[start:]].numpy()
