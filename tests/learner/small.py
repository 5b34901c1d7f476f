"""Small models and batches for the tests of the learner, and what plain transformers says of them."""

import random
from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from rollwright.algorithms import Objective
from rollwright.batches import StepBatch, plan_step
from rollwright.learner.causal_learner import CausalLearner, LearnerSettings, make_learner
from rollwright.learner.models import ModelShape, make_model
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from rollwright.record import Group, Sampling
from tests.batches.episodes import DEMONSTRATION, ON_POLICY, POLICY, Forest, episode, group

VOCAB = 61
SHAPE = ModelShape(
    vocab_size=VOCAB, hidden_size=48, num_layers=2, num_heads=2, num_kv_heads=1, head_size=48, intermediate_size=64
)


def lively_model(seed: int = 1) -> PreTrainedModel:
    """A fresh model with larger weights, so that its distributions are far from uniform."""
    model = make_model(SHAPE, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    return model


def learner_of(model: PreTrainedModel | None = None, *, clip_norm: float = float("inf"), **settings) -> CausalLearner:
    """A learner at rate 0.01 that never clips."""
    rate = settings.pop("learning_rate", 1e-2)
    optimizer = OptimizerSettings(schedule=Schedule(learning_rate=rate), clip_norm=clip_norm)
    return make_learner(model or lively_model(), LearnerSettings(optimizer=optimizer, **settings))


def two_turn_groups(
    num_groups: int = 3,
    size: int = 3,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    rewards: Sequence[float] = (1, 0, 0.5),
) -> list[Group]:
    """Groups that share a prompt, of episodes with two sampled turns around a tool's answer."""
    draw = random.Random(seed)
    sampling = Sampling(temperature=temperature)

    def tokens(low: int, high: int) -> list[int]:
        return [draw.randrange(VOCAB) for _ in range(draw.randint(low, high))]

    groups: list[Group] = []
    for number in range(num_groups):
        prompt = tokens(3, 9)
        members = []
        for slot in range(size):
            forest = Forest()
            forest.add("task", prompt)
            for turn in range(2):
                ids = tokens(1, 12)
                scores = [-0.5 - draw.random() for _ in ids]
                forest.add("policy", ids, turn=turn, scores=scores, sampling=sampling)
                if turn == 0:
                    forest.add("tool", tokens(1, 6), turn=turn)
            members.append(
                episode(forest.segments, group=number, slot=slot, outcome=float(rewards[slot % len(rewards)]))
            )
        groups.append(group(*members))
    return groups


def batch_of(groups: Sequence[Group], objective: Objective, *, step: int = 1) -> StepBatch:
    return plan_step(groups, step=step, objective=objective, eligible=POLICY, rules=ON_POLICY)


def demonstration_batch(objective: Objective, num_rows: int = 6, *, seed: int = 3) -> StepBatch:
    draw = random.Random(seed)
    groups = []
    for number in range(num_rows):
        forest = Forest()
        forest.add("task", [draw.randrange(VOCAB) for _ in range(5)])
        forest.add("demonstration", [draw.randrange(VOCAB) for _ in range(draw.randint(1, 6))])
        one = episode(forest.segments, group=number, outcome="demonstration", purpose="demonstration")
        groups.append(group(one))
    return plan_step(groups, step=1, objective=objective, eligible=DEMONSTRATION, rules=ON_POLICY)


def plain_scores(model: PreTrainedModel, batch: StepBatch) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log-probabilities and entropies, row by row through the model's own forward and log_softmax."""
    logprobs = np.full(len(batch.token_ids), np.nan, np.float32)
    entropy = logprobs.copy()
    with torch.no_grad():
        for start, end in zip(batch.row_offsets, batch.row_offsets[1:], strict=False):
            ids = torch.tensor(batch.token_ids[start:end].astype(np.int64))
            temperature = torch.tensor(batch.temperature[start + 1 : end])
            table = (model(ids[None]).logits[0, :-1].float() / temperature[:, None]).log_softmax(1)
            logprobs[start + 1 : end] = table.gather(1, ids[1:, None])[:, 0].numpy()
            entropy[start + 1 : end] = -(table.exp() * table).sum(1).numpy()
    return logprobs, entropy


def first_gradient(learner: CausalLearner) -> dict[str, torch.Tensor]:
    """The gradient of a learner's only update so far, read back from AdamW's first moment."""
    beta = learner.settings.optimizer.beta1
    tensors = learner.optimizer.state_tensors()
    prefix = "exp_avg/"
    return {n.removeprefix(prefix): t / (1 - beta) for n, t in tensors.items() if n.startswith(prefix)}


def gradients_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """A copy of the gradient of every parameter; each has one."""
    gradients: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        gradients[name] = parameter.grad.clone()
    return gradients


def relative_gap(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    """Largest difference, relative to the largest gradient."""
    assert left.keys() == right.keys()
    scale = max(float(t.abs().max()) for t in left.values())
    return max(float((left[n] - right[n]).abs().max()) for n in left) / scale
