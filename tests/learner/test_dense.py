import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, MistralConfig, PreTrainedModel, Qwen2Config, Qwen3Config, SmolLM3Config

from rollwright.algorithms import grpo
from rollwright.learner.dense import Activations, dense_hidden, why_not_dense
from rollwright.learner.errors import ModelError
from rollwright.learner.forward import Path, Scorer, make_scorer
from rollwright.learner.models import Precision
from rollwright.learner.packed import pack_rows
from tests.learner.small import batch_of, gradients_of, learner_of, lively_model, two_turn_groups
from tests.learner.test_packed import SIZES, model_of, rows_of_tokens

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0, "original_max_position_embeddings": 16}
DENSE = {
    "llama": LlamaConfig(**SIZES),
    "llama with every bias": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama with yarn": LlamaConfig(**SIZES, rope_parameters=YARN),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2, tied": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES),
    "qwen3, tied, with biases": Qwen3Config(**SIZES, attention_bias=True, tie_word_embeddings=True),
}


def uneven(model: PreTrainedModel) -> PreTrainedModel:
    """With norms and biases that are neither 1 nor 0."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def plain_logits(model: PreTrainedModel, rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([model(row[None]).logits[0] for row in rows])


def dense_logits(model: PreTrainedModel, rows: list[torch.Tensor], activations=Activations.KEPT) -> torch.Tensor:
    """In the type of the model's weights."""
    tokens, positions = torch.cat(rows), torch.cat([torch.arange(len(row)) for row in rows])
    packing = pack_rows(tokens, torch.tensor([0, *map(len, rows)]).cumsum(0))
    hidden = dense_hidden(model, tokens, positions, packing, model.dtype, activations)
    return model.lm_head(hidden)[packing.state_of]


def gradients_through(model: PreTrainedModel, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of one sum of the logits; the parameters hold nothing afterwards."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)) / 100
    (logits * weights).sum().backward()
    found = gradients_of(model)
    model.zero_grad()
    return found


def assert_equal_gradients(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], bound: float) -> None:
    """Each parameter by itself: a norm's gradient is not hidden by an embedding's."""
    for name, gradient in expected.items():
        scale = float(gradient.abs().max()) + 1e-6 * max(float(other.abs().max()) for other in expected.values())
        assert float((found[name] - gradient).abs().max()) < bound * scale, name


@pytest.mark.parametrize("family", DENSE)
@pytest.mark.parametrize("shared", [0, 4])
def test_dense_layers_give_the_models_own_logits_and_every_gradient(family, shared):
    model, rows = uneven(model_of(DENSE[family])), rows_of_tokens(shared=shared)
    assert why_not_dense(model) is None
    plain = plain_logits(model, rows)
    expected = gradients_through(model, plain)
    dense = dense_logits(model, rows)
    assert float((dense - plain).detach().abs().max()) < 1e-5 * (1 + float(plain.detach().abs().max()))
    # A key's bias moves all scores of a row alike: its gradient is rounding, so it is measured against the rest.
    assert_equal_gradients(gradients_through(model, dense), expected, 2e-4)


@pytest.mark.parametrize("family", DENSE)
def test_in_float64_every_gradient_is_that_of_transformers_but_for_its_own_float32_parts(family):
    # Norms and rotation angles of transformers are float32 whatever the model is: their rounding is what is left.
    model, rows = uneven(model_of(DENSE[family])).double(), rows_of_tokens(shared=4)
    expected = gradients_through(model, plain_logits(model, rows))
    found = gradients_through(model, dense_logits(model, rows))
    assert {gradient.dtype for gradient in found.values()} == {torch.float64}
    assert_equal_gradients(found, expected, 1e-5)


def test_a_padding_token_in_a_row_gets_the_gradient_that_the_model_gives_it():
    model = uneven(model_of(DENSE["llama"]))
    rows = [torch.tensor([3, 0, 7, 0, 5]), torch.tensor([0, 2])]
    expected = gradients_through(model, plain_logits(model, rows))
    assert not expected["model.embed_tokens.weight"][0].any()
    assert_equal_gradients(gradients_through(model, dense_logits(model, rows)), expected, 2e-4)


@pytest.mark.parametrize("seed", range(6))
def test_dense_layers_give_the_models_own_gradients_at_any_shape(seed):
    draw = random.Random(seed)
    num_kv_heads, share, head_size = draw.randint(1, 3), draw.randint(1, 3), 2 * draw.randint(2, 12)
    numbers: dict[str, Any] = {
        **SIZES,
        "hidden_size": num_kv_heads * share * draw.randint(3, 9),
        "intermediate_size": draw.randint(3, 90),
        "num_hidden_layers": draw.randint(1, 3),
        "num_attention_heads": num_kv_heads * share,
        "num_key_value_heads": num_kv_heads,
        "head_dim": head_size,
    }
    kind = draw.choice([LlamaConfig, Qwen3Config])
    model = uneven(model_of(kind(**numbers, tie_word_embeddings=draw.random() < 0.5, attention_bias=True)))
    rows = rows_of_tokens(shared=draw.randint(0, 5))
    expected = gradients_through(model, plain_logits(model, rows))
    assert_equal_gradients(gradients_through(model, dense_logits(model, rows)), expected, 2e-4)


def test_many_tokens_are_computed_in_pieces_that_give_the_same():
    model = uneven(model_of(DENSE["qwen3"]))
    draw = random.Random(0)
    rows = [torch.tensor([draw.randrange(1, 50) for _ in range(60)]) for _ in range(180)]
    expected = gradients_through(model, plain_logits(model, rows))
    assert_equal_gradients(gradients_through(model, dense_logits(model, rows)), expected, 2e-4)


def test_recomputed_activations_change_no_bit():
    model, rows = uneven(model_of(DENSE["qwen3"])), rows_of_tokens(shared=4)
    kept = gradients_through(model, dense_logits(model, rows))
    again = gradients_through(model, dense_logits(model, rows, Activations.RECOMPUTED))
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_logits_without_a_gradient_are_those_with_one_to_the_last_bit():
    model, rows = uneven(model_of(DENSE["llama"])), rows_of_tokens(shared=4)
    with torch.no_grad():
        alone = dense_logits(model, rows)
    assert torch.equal(alone, dense_logits(model, rows))


def test_two_passes_make_the_same_gradients_to_the_last_bit():
    model, rows = uneven(model_of(DENSE["qwen2"])), rows_of_tokens()
    first, second = (gradients_through(model, dense_logits(model, rows)) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_gradients_of_two_micro_batches_add_up():
    model, rows = uneven(model_of(DENSE["qwen3, tied, with biases"])), rows_of_tokens()
    parts = [gradients_through(model, dense_logits(model, part)) for part in (rows[:3], rows[3:])]
    for part in (rows[:3], rows[3:]):
        logits = dense_logits(model, part)
        weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)) / 100
        (logits * weights).sum().backward()
    summed = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    assert_equal_gradients(gradients_of(model), summed, 1e-5)


KEEP: dict[str, Callable[[str], bool]] = {
    "one norm": lambda name: name.endswith("0.input_layernorm.weight"),
    "one matrix": lambda name: name.endswith("1.mlp.up_proj.weight"),
    "the upper layer": lambda name: ".layers.1." in name,
    "the embedding": lambda name: "embed" in name,
}


@pytest.mark.parametrize("part", KEEP)
def test_frozen_parameters_get_no_gradient_and_the_others_keep_theirs(part):
    model, rows = uneven(model_of(DENSE["qwen3"])), rows_of_tokens()
    whole = gradients_through(model, dense_logits(model, rows))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(KEEP[part](name))
    logits = dense_logits(model, rows)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)) / 100
    (logits * weights).sum().backward()
    for name, parameter in model.named_parameters():
        if not KEEP[part](name):
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None and torch.equal(parameter.grad, whole[name]), name


def test_a_second_backward_pass_through_the_same_layers_is_refused():
    model, rows = model_of(DENSE["llama"]), rows_of_tokens()
    total = dense_logits(model, rows).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_bf16_products_keep_weights_gradients_and_the_residual_stream_in_fp32():
    model, rows = uneven(model_of(DENSE["qwen3"])), rows_of_tokens(shared=4)
    expected = gradients_through(model, plain_logits(model, rows))
    tokens, positions = torch.cat(rows), torch.cat([torch.arange(len(row)) for row in rows])
    packing = pack_rows(tokens, torch.tensor([0, *map(len, rows)]).cumsum(0))
    scorer = make_scorer(model, Precision.BF16)
    assert scorer.path is Path.DENSE
    hidden = scorer.hidden(tokens, positions, packing)
    assert hidden.dtype == torch.float32
    found = gradients_through(model, model.lm_head(hidden)[packing.state_of])
    for name, gradient in expected.items():
        if "bias" not in name:
            cosine = nn.functional.cosine_similarity(found[name].flatten(), gradient.flatten(), dim=0)
            assert found[name].dtype == torch.float32 and float(cosine) > 0.98, (name, float(cosine))


def test_what_is_no_dense_family_says_why_and_goes_through_its_own_layers():
    model = model_of(SmolLM3Config(**SIZES))
    assert "smollm3" in str(why_not_dense(model))
    assert make_scorer(model).path is Path.PACKED
    with pytest.raises(ModelError, match="cannot be recomputed"):
        make_scorer(model_of(SmolLM3Config(**SIZES)), activations=Activations.RECOMPUTED)
    other = model_of(LlamaConfig(**SIZES, hidden_act="gelu"))
    assert why_not_dense(other) == "its activation is 'gelu'"
    assert make_scorer(other).path is Path.PACKED


def test_layers_with_more_parameters_than_their_family_has_are_not_dense():
    model = model_of(DENSE["llama"])
    model.get_submodule("model.layers.0.mlp").register_parameter("scale", nn.Parameter(torch.ones(1)))
    assert "such as model.layers.0.mlp.scale" in str(why_not_dense(model))


def test_a_model_that_stops_a_gradient_of_its_own_is_refused():
    model = model_of(DENSE["llama"])
    model.get_submodule("model.layers.1.mlp").register_forward_hook(lambda *given: given[-1].detach())
    with pytest.raises(ModelError, match="another gradient than the dense path"):
        make_scorer(model)


def test_a_model_that_changes_its_layers_numbers_is_refused():
    model = model_of(DENSE["llama"])
    model.get_submodule("model.layers.1.mlp").register_forward_hook(lambda *given: given[-1] * 1.1)
    with pytest.raises(ModelError, match="gives other logits"):
        make_scorer(model)


@pytest.mark.parametrize("activations", Activations)
def test_a_step_trains_as_it_does_through_the_models_own_layers(activations):
    batch = batch_of(two_turn_groups(), grpo())
    ours = learner_of(lively_model(), activations=activations)
    assert ours.scorer.path is Path.DENSE
    theirs = learner_of(lively_model())
    theirs.scorer = Scorer(model=theirs.model, path=Path.PADDED, precision=Precision.FP32)
    outcomes = [one.train(batch, grpo(), first_update=1).updates[0].outcome for one in (ours, theirs)]
    assert outcomes[0].loss == pytest.approx(outcomes[1].loss, rel=1e-5, abs=1e-7)
    assert outcomes[0].grad_norm == pytest.approx(outcomes[1].grad_norm, rel=1e-5)
