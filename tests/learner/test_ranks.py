"""Two processes over gloo against one: the same loss, gradient and outcome."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from rollwright.algorithms import (
    Surrogate,
    TokenStreams,
    grpo,
    staleness_ratio,
    supervised,
)
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.objective import UpdateStage
from rollwright.algorithms.stages import made_by
from rollwright.batches import StepBatch
from rollwright.learner.outcome import StepOutcome
from tests.learner.small import batch_of, demonstration_batch, first_gradient, learner_of, two_turn_groups

NUM_RANKS = 2


def scenarios() -> dict[str, tuple[StepBatch, dict]]:
    """Batches with the settings they are trained under; "one row" has fewer rows than there are ranks."""
    return {
        "grpo": (batch_of(two_turn_groups(3), grpo()), {}),
        "pieces": (batch_of(two_turn_groups(3), grpo()), {"token_budget": 40}),
        "epochs": (batch_of(two_turn_groups(4), grpo()), {"num_minibatches": 2, "num_epochs": 2}),
        "stages": (batch_of(two_turn_groups(3), STAGED), {}),
        "one row": (demonstration_batch(supervised(), 1), {}),
        "not finite": (batch_of(two_turn_groups(1, rewards=(1, 0, 0)), grpo()), {}),
    }


def not_finite_above_zero(ratio: torch.Tensor, streams: TokenStreams) -> Surrogate:
    """NaN in the one row that was rewarded, which one rank holds."""
    right = grpo().surrogate(ratio, streams)
    return replace(right, per_token=torch.where(streams.advantages > 0, ratio * torch.nan, right.per_token))


def drawn(streams: TokenStreams, generator: torch.Generator) -> torch.Tensor:
    """Half of the tokens of an update, by lot: every rank draws the same."""
    return torch.rand(len(streams.action_mask), generator=generator) < 0.5


def of_drawn_tokens(ratio: torch.Tensor, streams: TokenStreams) -> Surrogate:
    right = grpo().surrogate(ratio, streams)
    return replace(right, per_token=torch.where(made_by(streams, "drawn"), right.per_token, 0.0))


NORMALIZED = self_normalizing(replace(grpo(), correction=staleness_ratio, needs=frozenset({"behavior", "proximal"})))
STAGED = replace(
    NORMALIZED,
    surrogate=of_drawn_tokens,
    stages=(*NORMALIZED.stages, UpdateStage(name="drawn", make=drawn)),
)
OBJECTIVES = {"stages": STAGED, "one row": supervised(), "not finite": replace(grpo(), surrogate=not_finite_above_zero)}


def train(name: str) -> tuple[StepOutcome, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    batch, settings = scenarios()[name]
    learner = learner_of(**settings)
    outcome = learner.train(batch, OBJECTIVES.get(name, grpo()), first_update=1)
    return outcome, first_gradient(learner), dict(learner.weights())


def numbers_of(name: str) -> dict[str, torch.Tensor]:
    """All that a rank reports, as tensors."""
    outcome, gradient, weights = train(name)
    numbers = {f"gradient/{key}": tensor for key, tensor in gradient.items()}
    numbers |= {f"weight/{key}": tensor.clone() for key, tensor in weights.items()}
    for index, (_, done) in enumerate(outcome.updates):
        numbers[f"loss/{index}"] = torch.tensor([done.loss, done.grad_norm, done.learning_rate, done.is_applied])
        for stream, values in {"proximal": done.proximal, "entropy": done.entropy, "keep": done.keep}.items():
            assert values is not None, stream
            numbers[f"{stream}/{index}"] = torch.from_numpy(np.nan_to_num(values.astype(np.float32), nan=-9.0))
    return numbers


def run_rank(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    distributed.init_process_group("gloo", rank=rank, world_size=NUM_RANKS)
    try:
        from safetensors.torch import save_file

        for name in scenarios():
            numbers = {key: tensor.contiguous().clone() for key, tensor in numbers_of(name).items()}
            save_file(numbers, Path(folder) / f"{name}-{rank}.safetensors")
    finally:
        distributed.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("ranks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spawn(run_rank, args=(port, str(place)), nprocs=NUM_RANKS)
    return place


@pytest.mark.parametrize("name", ["grpo", "pieces", "epochs", "stages", "one row"])
def test_two_ranks_give_the_loss_and_gradient_of_one(folder, name):
    from safetensors.torch import load_file

    first, second = (load_file(folder / f"{name}-{rank}.safetensors") for rank in range(NUM_RANKS))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first), "all ranks report the same"
    alone = numbers_of(name)
    scale = max(float(t.abs().max()) for key, t in alone.items() if key.startswith("gradient/"))
    for key, tensor in alone.items():
        gap = float((tensor - first[key]).abs().max())
        if key.startswith("gradient/"):
            assert gap < 1e-5 * scale, key
        elif key.startswith("loss/0"):
            assert first[key].tolist() == pytest.approx(tensor.tolist(), rel=1e-5, abs=1e-8), key
        elif key.startswith("keep/"):
            assert gap == 0, key
        else:
            assert gap < 1e-3, key


@pytest.mark.case("F128")
def test_a_gradient_that_is_not_finite_on_one_rank_is_skipped_on_all(folder):
    from safetensors.torch import load_file

    start = dict(learner_of().weights())
    for rank in range(NUM_RANKS):
        numbers = load_file(folder / f"not finite-{rank}.safetensors")
        assert not numbers["loss/0"][3], "not applied"
        assert not any(key.startswith("gradient/") for key in numbers), "AdamW saw nothing"
        assert all(torch.equal(numbers[f"weight/{name}"], tensor) for name, tensor in start.items())
