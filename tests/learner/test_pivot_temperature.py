"""A temperature that was drawn for a task goes the whole way: from the engine's draw to the learner's score."""

import numpy as np
import pytest
import torch

from rollwright.algorithms import grpo
from rollwright.algorithms.sampling.pivot_temperature import PivotSettings, PivotTemperatures, temperature_of_rate
from rollwright.batches import plan_step
from rollwright.engines.sampling import SamplingRows, draw
from rollwright.learner.logprobs import score_tokens
from rollwright.record import Sampling
from tests.batches.episodes import ON_POLICY, POLICY, Forest, episode, group

LOGITS = np.array([2.0, 1.0, 0.0, -1.0])


def attempt(sampling, number, slot, generator):
    """Two turns of three tokens, each drawn at the group's temperature."""
    forest = Forest()
    forest.add("task", 2)
    for turn in range(2):
        drawn = draw(np.tile(LOGITS, (3, 1)), SamplingRows.of([sampling] * 3), generator.random(3))
        forest.add("policy", drawn.token_ids.tolist(), sampling=sampling, scores=drawn.logprobs.tolist(), turn=turn)
        forest.add("tool", 1)
    return episode(forest.segments, group=number, slot=slot, outcome=float(slot))


@pytest.mark.row("S209")
def test_every_turn_of_a_group_is_sampled_and_scored_at_the_temperature_of_its_task():
    assert temperature_of_rate([0.1, 0.5, 0.9], pivot=0.5).tolist() == pytest.approx([1.38, 1, 0.72], abs=5e-3)
    temperatures = PivotTemperatures(PivotSettings(total_steps=100), seed=0)
    generator = np.random.default_rng(0)
    drawn = {number: temperatures.draw(f"task/{number}", step=1) for number in range(3)}
    assert len(set(drawn.values())) == 3
    groups = []
    for number, temperature in drawn.items():
        sampling = Sampling(temperature=temperature)
        groups.append(group(*[attempt(sampling, number, slot, generator) for slot in range(2)]))
    batch = plan_step(groups, step=1, objective=grpo(), eligible=POLICY, rules=ON_POLICY)
    acts = batch.acts
    rows = np.repeat(np.arange(len(batch.rows)), np.diff(batch.row_offsets))[acts]
    due = np.array([drawn[int(batch.facts.group_index[row])] for row in rows], np.float32)
    assert batch.temperature[acts].tolist() == due.tolist()

    head = torch.tensor(LOGITS, dtype=torch.float32)[:, None]
    targets = torch.tensor(batch.token_ids[acts], dtype=torch.int64)
    hidden = torch.ones(len(targets), 1)
    behavior = torch.tensor(batch.behavior[acts])
    carried = score_tokens(hidden, head, targets, torch.tensor(batch.temperature[acts])).logprobs
    assert torch.allclose(carried, behavior, atol=1e-5)
    forgotten = score_tokens(hidden, head, targets, torch.ones(len(targets))).logprobs
    assert not torch.allclose(forgotten, behavior, atol=1e-2)
