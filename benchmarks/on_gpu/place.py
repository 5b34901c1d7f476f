"""Where the parts run and at what size, and the few things that all of them do."""

import asyncio
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.shared_prompt import micro_of
from benchmarks.workloads import model_folder
from rollwright.batches import MicroBatch
from rollwright.engines.embedded import EmbeddedEngine, EmbeddedSettings, open_engine
from rollwright.learner.models import load_causal_lm
from rollwright.record import GenerationRequest, Sampling, ids

__all__ = ["Place", "Sizes", "TypeName", "drawn", "memory_gib", "moved", "opened", "prompts_of", "seconds_of"]

TypeName = Literal["float32", "bfloat16"]
LARGE_LIMIT_S = 600.0


@dataclass(frozen=True)
class Sizes:
    """Of one go."""

    model: str
    prompts: int
    attempts: int
    prompt_tokens: int
    new_tokens: int
    turns: int
    """Repetitions of what is timed."""

    @property
    def contexts(self) -> int:
        return self.prompts * self.attempts


LARGE = Sizes(model="0.5b", prompts=8, attempts=8, prompt_tokens=128, new_tokens=64, turns=5)
SMALL = Sizes(model="tiny", prompts=2, attempts=4, prompt_tokens=24, new_tokens=12, turns=2)


@dataclass(frozen=True)
class Place:
    """A device, and what is asked of it."""

    device: str
    dtype: TypeName
    """Of the parts that have one; those that compare types take both."""
    sizes: Sizes

    @property
    def is_gpu(self) -> bool:
        return self.device != "cpu"

    def model(self) -> PreTrainedModel:
        """In float32 on the CPU, as a run loads it."""
        return load_causal_lm(model_folder(self.sizes.model))

    def wait(self) -> None:
        """Until all that was asked of the device is done."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def forget_peak(self) -> None:
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)


def prompts_of(place: Place, vocab: int) -> list[list[int]]:
    """Made-up prompts, the same in every go."""
    draw = np.random.default_rng(0)
    return [draw.integers(3, vocab, place.sizes.prompt_tokens).tolist() for _ in range(place.sizes.prompts)]


def opened(model: PreTrainedModel, place: Place, dtype: TypeName) -> EmbeddedEngine:
    """An engine in the fast mode, which alone may be on a GPU or in bfloat16."""
    sizes = place.sizes
    settings = EmbeddedSettings(
        num_slots=sizes.contexts,
        max_context_tokens=sizes.prompt_tokens + sizes.new_tokens,
        dtype=dtype,
        device=place.device,
        mode="fast",
    )
    return open_engine(model, settings, lambda _: {})


async def drawn(
    engine: EmbeddedEngine, prompts: Sequence[Sequence[int]], place: Place, *, go: int = 0, new_tokens: int = 0
) -> list[tuple[list[int], list[float]]]:
    """Completions of one length of every prompt, with their log-probabilities, in order."""
    count = new_tokens or place.sizes.new_tokens

    async def draw(number: int) -> tuple[list[int], list[float]]:
        prompt = prompts[number // place.sizes.attempts]
        request = GenerationRequest(
            request_id=f"{go}/{number}",
            policy="policy",
            session=f"{go}/{number}/0",
            context=0,
            share=f"{go}/{number // place.sizes.attempts}",
            token_ids=ids(prompt),
            sampling=Sampling(temperature=1.0),
            max_tokens=count,
            deadline_s=LARGE_LIMIT_S,
            seed=number,
            stop_token_ids=frozenset(),
        )
        tokens: list[int] = []
        logprobs: list[float] = []
        async for chunk in engine.generate(request):
            tokens += chunk.token_ids.tolist()
            logprobs += chunk.behavior_logprobs.tolist()
        await engine.release(request.session)
        return tokens, logprobs

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(draw(n), name=f"draw {n}") for n in range(place.sizes.contexts)]
    return [task.result() for task in tasks]


def moved(rows: Sequence[Sequence[int]], completion: int, device: str) -> MicroBatch:
    """Rows whose last tokens are trained, on a device."""
    micro = micro_of(rows, completion)
    found: dict[str, Any] = {one.name: getattr(micro, one.name) for one in fields(micro)}
    return replace(micro, **{name: value.to(device) for name, value in found.items() if isinstance(value, Tensor)})


def seconds_of(work: Callable[[], object], place: Place) -> float:
    """The median of some turns, behind one that does not count."""
    work()
    found: list[float] = []
    for _ in range(place.sizes.turns):
        place.wait()
        began = time.perf_counter()
        work()
        place.wait()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def memory_gib(place: Place) -> float:
    """The most that the device held since `forget_peak`; on a CPU, that the process ever did."""
    if place.is_gpu:
        return torch.cuda.max_memory_allocated(place.device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
