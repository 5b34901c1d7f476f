"""New weights in mid-turn, from a real engine through the driver into the record and back."""

import asyncio

import numpy as np
import pytest
import torch

from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import ScoredTrajectory, StepResult, context_segments
from rollwright.record.codec import decode_trajectories, encode_trajectories
from rollwright.rollout import FixedClock, Limits, run_episode
from tests.engines.battery import manifest_of
from tests.engines.small import plain_logprobs, small_model
from tests.rollout.fakes import FakeEnvironment, observe, spec_of

VOCAB = 512
PLAIN = range(20, 120)
"""Single bytes: no turn of them ends before its budget."""
TURN_TOKENS = 250


def model_of(seed):
    """A random model that draws plain tokens only."""
    model = small_model(
        "qwen3", seed=seed, vocab_size=VOCAB, head_dim=16, hidden_size=32, intermediate_size=48,
        tie_word_embeddings=False,
    )  # fmt: skip
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("embed_tokens.weight"):
                parameter[:, 0] = 1.0
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter[0] = 0.0
            elif name == "model.norm.weight":
                parameter[0] = 1.0
            elif name == "lm_head.weight":
                # Nothing writes to the first number of the stream, so it is a bias here.
                parameter[:, 0] = -1000.0
                parameter[PLAIN.start : PLAIN.stop, 0] = 0.0
    return model


def stored(trajectory):
    """The trajectory as it comes back from the tables."""
    scored = ScoredTrajectory(
        trajectory=trajectory, verdicts=(), outcome=0.0, reward_rule="r", reward_components=(), verifying_s=0.0
    )
    encoded = encode_trajectories([scored])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    return back.trajectory


@pytest.mark.row("S097", "S235", "S236")
@pytest.mark.parametrize(("swap", "cache"), [("recompute", 1), ("continue", 0)])
def test_a_turn_that_new_weights_interrupt_keeps_its_beginning_and_is_stored_as_two_segments(renderer, swap, cache):
    old, new = model_of(0), model_of(1)
    weights = {name: tensor.detach().clone() for name, tensor in new.state_dict().items()}
    environment = FakeEnvironment([observe("how many?"), observe("are you sure?"), StepResult(observations=())])

    async def run():
        settings = EmbeddedSettings(num_slots=2, max_context_tokens=1000, mode="fast")
        engine = open_engine(old, settings, lambda manifest: weights)

        async def come():
            while engine.counters.drawn_tokens < 3:  # noqa: ASYNC110 - a counter has no event
                await asyncio.sleep(0)
            await engine.load_weights(manifest_of(weights, 1), swap)

        spec = spec_of(Limits(turn_tokens=TURN_TOKENS, cut_turn="go_on"))
        async with asyncio.TaskGroup() as group:
            group.create_task(come())
            episode = group.create_task(
                run_episode(
                    spec, engines={"policy": engine}, environment=environment, renderer=renderer, clock=FixedClock()
                )
            )
        await engine.close()
        return stored(episode.result()), engine.counters

    trajectory, counters = asyncio.run(run())
    first, rest, later = (s for s in trajectory.segments if s.origin == "policy")
    assert [(s.policy_version, s.cache_version) for s in (first, rest, later)] == [(0, 0), (1, cache), (1, 1)]
    assert rest.parent == first.segment and rest.start == first.start + first.num_tokens
    assert first.num_tokens >= 3 and first.num_tokens + rest.num_tokens == later.num_tokens == TURN_TOKENS
    for segment, model in ((first, old), (rest, new), (later, new)):
        context = np.concatenate([s.token_ids for s in context_segments(trajectory.segments, segment.segment)])
        expected = plain_logprobs(model, context.tolist(), segment.start)
        differences = abs(np.asarray(segment.behavior_logprobs) - expected)
        # Over a cache of the old weights the new ones say something else, and the record says that they did.
        assert differences.max() < 1e-3 or (segment is rest and swap == "continue")
    if swap == "recompute":
        assert counters.refilled_tokens == first.start + first.num_tokens
