"""Prompts are computed between the decode steps of other turns, and it shows in no bit."""

import numpy as np
import pytest

from rollwright.engines.embedded import EmbeddedSettings
from tests.engines.small import VOCAB, request_of, small_model
from tests.engines.stepping import Stepper

MODEL = small_model("qwen3", hidden_size=96, num_attention_heads=4, num_key_value_heads=2)
SETTINGS = EmbeddedSettings(num_slots=12, max_context_tokens=200)
"""The deterministic mode, so that equal means equal in every bit."""
PROMPTS = [np.random.default_rng(seed).integers(0, VOCAB, 30 + 11 * seed) for seed in range(3)]


def group_of(number):
    """Four turns over one prompt, whose cache they share."""
    return [
        request_of(10 * number + n, PROMPTS[number], share=f"g{number}", max_tokens=9, stop_token_ids=frozenset())
        for n in range(4)
    ]


def drawn(stepper):
    names = [request.request_id for number in range(3) for request in group_of(number)]
    turns = [stepper.turn(name) for name in names]
    return [(turn.token_ids, turn.logprobs.tobytes(), turn.finish) for turn in turns]


@pytest.mark.row("S229")
@pytest.mark.parametrize("steps", [1, 5])
def test_prompts_computed_while_other_turns_decode_change_no_bit_of_a_synchronous_batch(steps):
    apart, within = Stepper(MODEL, SETTINGS), Stepper(MODEL, SETTINGS)
    try:
        for number in range(3):
            apart.submit(*group_of(number))
            apart.finish()
        for number in range(3):
            # The next prompt is computed in the window in which the turns before it are decoded.
            within.submit(*group_of(number))
            assert within.decoder.num_drawing > 4 * (number > 0)
            within.step(steps)
        within.finish()
        assert drawn(within) == drawn(apart)
        for stepper in (apart, within):
            assert stepper.counters.prefilled_tokens == sum(len(prompt) for prompt in PROMPTS)
            assert stepper.counters.copied_tokens == 3 * sum(len(prompt) for prompt in PROMPTS)
        assert within.counters.decode_steps < apart.counters.decode_steps
    finally:
        apart.close()
        within.close()
