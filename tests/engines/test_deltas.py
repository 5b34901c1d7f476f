"""Weights sent as what changed are the weights sent whole, bit for bit."""

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rollwright.engines import WeightsRefusedError, apply_delta, make_delta
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from tests.engines.battery import manifest_of
from tests.engines.small import draw, request_of, small_model

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
NUMBERS = st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan"), float("inf")])


def bits(arrays):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


@st.composite
def two_sets(draw_):
    """Weights, and the same with some numbers changed."""
    old, new = {}, {}
    for name in draw_(st.lists(st.sampled_from("abcd"), unique=True, max_size=4)):
        shape = draw_(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
        dtype = draw_(st.sampled_from([np.float32, np.uint16]))
        values = NUMBERS if dtype is np.float32 else st.integers(0, 2**16 - 1)
        old[name] = draw_(hnp.arrays(dtype, shape, elements=values))
        moved = draw_(hnp.arrays(dtype, shape, elements=values))
        new[name] = np.where(draw_(hnp.arrays(np.bool_, shape)), moved, old[name]).astype(dtype)
    return old, new


@pytest.mark.row("S230", "S231")
@given(two_sets())
def test_a_delta_leads_to_the_new_weights_bit_for_bit_and_leaves_the_old_ones_alone(sets):
    old, new = sets
    before = bits(old)
    delta = make_delta(old, new)
    assert bits(apply_delta(old, delta)) == bits(new)
    assert bits(old) == before
    assert delta.num_bytes <= sum(array.nbytes for array in new.values())


@pytest.mark.row("S230")
def test_the_bytes_of_a_sparse_payload_are_counted_with_its_indices():
    old = {"w": np.zeros(1000, np.float32), "same": np.ones(7, np.float32), "b": np.zeros(4, np.uint16)}
    new = {"w": old["w"].copy(), "same": old["same"].copy(), "b": np.arange(1, 5, dtype=np.uint16)}
    new["w"][[3, 500, 999]] = [1.0, -0.0, np.nan]
    delta = make_delta(old, new)
    assert set(delta.changes) == {"w", "b"}
    # Three numbers of 4 bytes with three places of 4 bytes; four of 2 bytes take less whole than with their places.
    assert (delta.changes["w"].num_bytes, delta.changes["b"].num_bytes) == (3 * (4 + 4), 4 * 2)
    assert delta.num_bytes == 24 + 8 < sum(array.nbytes for array in new.values())
    assert bits(apply_delta(old, delta)) == bits(new)


def arrays_of(weights):
    """As bits, a view."""
    return {name: tensor.contiguous().view(torch.int16).numpy().view(np.uint16) for name, tensor in weights.items()}


def tensors_of(arrays):
    return {name: torch.from_numpy(a.view(np.int16).copy()).view(torch.bfloat16) for name, a in arrays.items()}


@pytest.mark.row("S231")
def test_an_engine_that_gets_deltas_serves_the_bits_of_one_that_gets_whole_sets():
    """Its own check of every digest says that nothing is missing."""
    model = small_model("qwen3", **TINY)
    model.bfloat16()
    settings = EmbeddedSettings(num_slots=2, max_context_tokens=32, mode="fast", dtype="bfloat16")
    sets = [{name: tensor.detach().clone() for name, tensor in model.state_dict().items()}]
    chance = torch.Generator().manual_seed(0)
    for _ in range(2):
        step = {}
        for name, tensor in sets[-1].items():
            # Most steps of an optimizer are below the half of bfloat16's spacing, and change nothing.
            moves = torch.randn(tensor.shape, generator=chance) * 2e-5
            step[name] = (tensor.float() + moves).to(torch.bfloat16)
        step["lm_head.weight"] = step["model.embed_tokens.weight"]
        sets.append(step)
    held, sent = arrays_of(sets[0]), []

    def by_delta(manifest):
        nonlocal held
        delta = make_delta(held, arrays_of(sets[manifest.version]))
        sent.append(delta.num_bytes)
        held = apply_delta(held, delta)
        return tensors_of(held)

    async def turns(read):
        engine = open_engine(model, settings, read)
        found = []
        for version in range(1, len(sets)):
            await engine.load_weights(manifest_of(sets[version], version), "drain")
            turn = await draw(engine, request_of(version, (1, 2, 3), max_tokens=4, stop_token_ids=frozenset()))
            found.append((turn.token_ids, turn.logprobs.tobytes(), turn.chunks[0].policy_version))
        await engine.close()
        return found

    whole = asyncio.run(turns(lambda manifest: sets[manifest.version]))
    assert asyncio.run(turns(by_delta)) == whole
    size = sum(array.nbytes for array in held.values())
    assert all(0 < number < size / 2 for number in sent)


def test_a_delta_of_other_weights_is_refused():
    old, new = {"w": np.zeros(3, np.float32)}, {"w": np.ones(3, np.float32)}
    delta = make_delta(old, new)
    with pytest.raises(WeightsRefusedError, match="made from other weights"):
        apply_delta(new, delta)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"v": np.zeros(3, np.float32)}, "send the whole set"),
        ({"w": np.zeros(4, np.float32)}, "changes numbers alone"),
        ({"w": np.zeros(3, np.float64)}, "changes numbers alone"),
    ],
)
def test_weights_of_another_form_have_no_delta(new, said):
    with pytest.raises(WeightsRefusedError, match=said):
        make_delta({"w": np.zeros(3, np.float32)}, new)
