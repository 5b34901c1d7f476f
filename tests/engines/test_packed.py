"""Matrices large enough to be packed: a row's bits stay its own, and published weights serve like opened ones."""

import platform
from typing import Literal

import numpy as np
import pytest
import torch

from rollwright.engines.embedded import EmbeddedSettings
from rollwright.engines.embedded.dense_weights import DenseWeights, lay_out, spared
from rollwright.engines.embedded.product import PACKED_BYTES, product_of
from rollwright.engines.embedded.shapes import dense_shape
from tests.engines.small import request_of, small_model
from tests.engines.stepping import Stepper

WIDE = {
    "hidden_size": 768,
    "intermediate_size": 1024,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_hidden_layers": 2,
}
"""Several matrices of a layer are packed."""
LARGE = {"hidden_size": 128, "intermediate_size": 2304}
SETTINGS = EmbeddedSettings(num_slots=16, max_context_tokens=96)
packs = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available(),
    reason="matrices are packed with oneDNN on x86 alone",
)


def drawn(stepper: Stepper, number: int, company: int = 0) -> tuple[list[int], bytes]:
    """Tokens of a turn, and the bits of their log-probabilities, among so many others."""
    others = [request_of(1000 * number + i, [i + 1, 2], max_tokens=4 + i) for i in range(1, company + 1)]
    mine = request_of(number, [5, 6, 7], max_tokens=8, stop_token_ids=frozenset(), seed=3)
    stepper.submit(*others, mine)
    stepper.finish()
    turn = stepper.turn(mine.request_id)
    for request in (*others, mine):
        stepper.decoder.release(request.session)
    chunks = turn.chunks
    tokens = [int(token) for chunk in chunks for token in chunk.token_ids]
    return tokens, np.concatenate([chunk.behavior_logprobs for chunk in chunks]).tobytes()


@packs
@pytest.mark.parametrize("rows", [8, 12, 24, 64])
def test_a_packed_matrix_gives_a_row_the_same_bits_whatever_rows_stand_beside_it(rows: int):
    columns = 256
    with torch.inference_mode():
        weight = torch.randn(PACKED_BYTES // 4 // columns, columns, generator=torch.Generator().manual_seed(0))
        product = product_of(weight, None)
        assert product.is_packed
        given = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
        assert torch.equal(product(given)[:4], product(given[:4]))
        torch.testing.assert_close(product(given), given @ weight.T, rtol=1e-4, atol=1e-4)


@packs
def test_the_large_model_of_these_tests_is_packed():
    model = small_model("qwen3", **LARGE)
    laid_out = lay_out(model.state_dict(), dense_shape(model.config), dtype=torch.float32, device=torch.device("cpu"))
    assert all(layer.gate_up.is_packed and layer.is_packed for layer in laid_out.layers)


def test_a_matrix_below_the_size_lies_turned_and_multiplies_as_it_did():
    weight, rows = torch.randn(24, 16), torch.randn(8, 16)
    product = product_of(weight, None)
    assert not product.is_packed and product.plain is product.weight
    assert torch.equal(product.weight, weight) and product.weight.t().is_contiguous()
    torch.testing.assert_close(product(rows), rows @ weight.T)


@pytest.mark.parametrize("is_tied", [False, True])
def test_small_matrices_of_the_next_weights_take_the_memory_of_those_before(is_tied: bool):
    first, second = (small_model("qwen3", seed=seed, tie_word_embeddings=is_tied) for seed in range(2))
    shape, here = dense_shape(first.config), torch.device("cpu")
    before = lay_out(first.state_dict(), shape, dtype=torch.float32, device=here)
    fresh = lay_out(second.state_dict(), shape, dtype=torch.float32, device=here)
    again = lay_out(second.state_dict(), shape, dtype=torch.float32, device=here, into=spared(before))
    for old, due, new in zip(matrices_of(before), matrices_of(fresh), matrices_of(again), strict=True):
        assert new.data_ptr() == old.data_ptr() and torch.equal(new, due)


def matrices_of(weights: DenseWeights) -> list[torch.Tensor]:
    """Of all layers, with the embedding and the head."""
    layers = [matrix for one in weights.layers for matrix in (one.matrices.qkv, one.matrices.out, one.matrices.gate_up)]
    return [weights.embedding, weights.head.weight, *layers, *(one.down.weight for one in weights.layers)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [LARGE, WIDE])
def test_weights_published_again_and_again_serve_like_those_that_an_engine_was_opened_with(
    shape: dict[str, int], dtype: Literal["float32", "bfloat16"]
):
    settings = EmbeddedSettings(num_slots=16, max_context_tokens=96, mode="fast", dtype=dtype)
    models = [small_model("qwen3", seed=seed, **shape) for seed in range(2)]
    due = []
    for model in models:
        opened = Stepper(model, settings)
        due.append(drawn(opened, 1))
        opened.close()
    stepper = Stepper(models[0], settings)
    for version in range(1, 5):
        stepper.load(models[version % 2], version, "drain")
        assert drawn(stepper, version + 1) == due[version % 2]
    stepper.close()


def test_a_turn_of_a_model_with_packed_matrices_has_the_same_bits_in_any_company():
    stepper = Stepper(small_model("qwen3", **LARGE), SETTINGS)
    alone = drawn(stepper, 1)
    assert [drawn(stepper, number, company) for number, company in ((2, 5), (3, 14))] == [alone, alone]
    stepper.close()
