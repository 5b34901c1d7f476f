from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

from rollwright.learner.errors import ModelError
from rollwright.learner.forward import Path, make_scorer
from rollwright.learner.packed import pack_rows, packed_hidden, padded_hidden, use_packed_attention
from tests.learner.small import gradients_of

# Any: not every family declares all of these; Qwen2 and SmolLM3 take `head_dim` among their further keywords.
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
PACKED = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "smollm3": SmolLM3Config(**SIZES),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
}
LENGTHS = (5, 17, 1, 40, 33, 8, 2)


def model_of(config) -> PreTrainedModel:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    return model


def rows_of_tokens(lengths=LENGTHS, *, shared: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(1, 50, (length,), generator=generator) for length in lengths]
    for row in rows[1:]:
        row[: min(shared, len(row))] = rows[0][: min(shared, len(row), len(rows[0]))][: len(row)]
    return rows


def packed_logits(model: PreTrainedModel, rows: list[torch.Tensor]) -> torch.Tensor:
    tokens, positions = torch.cat(rows), torch.cat([torch.arange(len(row)) for row in rows])
    packing = pack_rows(tokens, torch.tensor([0, *map(len, rows)]).cumsum(0))
    return model.lm_head(packed_hidden(model, tokens, positions, packing))[packing.state_of]


@pytest.mark.parametrize("family", sorted(PACKED))
@pytest.mark.parametrize("shared", [0, 4])
def test_packed_rows_equal_each_row_alone_in_value_and_gradient(family, shared):
    model, rows = model_of(PACKED[family]), rows_of_tokens(shared=shared)
    probe = torch.randn(sum(map(len, rows)), 50, generator=torch.Generator().manual_seed(2)) / 100
    plain = torch.cat([model(row[None]).logits[0] for row in rows])
    (plain * probe).sum().backward()
    expected = gradients_of(model)
    model.zero_grad()

    use_packed_attention(model)
    packed = packed_logits(model, rows)
    assert float((packed - plain).detach().abs().max()) < 1e-5 * (1 + float(plain.detach().abs().max()))
    (packed * probe).sum().backward()
    scale = max(float(grad.abs().max()) for grad in expected.values())
    for name, gradient in gradients_of(model).items():
        assert float((gradient - expected[name]).abs().max()) < 1e-5 * scale, name


def test_no_token_sees_another_row_or_what_comes_after_it():
    model, rows = model_of(PACKED["qwen3"]), rows_of_tokens()
    use_packed_attention(model)
    with torch.no_grad():
        before = packed_logits(model, rows)
        changed = [row.clone() for row in rows]
        changed[3][20:] = 7
        after = packed_logits(model, changed)
    start = sum(LENGTHS[:3]) + 20
    is_touched = torch.zeros(len(before), dtype=torch.bool)
    is_touched[start : start + LENGTHS[3] - 20] = True
    assert torch.equal(before[~is_touched], after[~is_touched])
    assert not torch.allclose(before[is_touched], after[is_touched])


@pytest.mark.row("S247")
def test_a_prompt_that_rows_share_is_computed_once():
    rows = rows_of_tokens((20, 20, 20, 20), shared=15)
    for number, row in enumerate(rows):
        row[15] = number + 1
    packing = pack_rows(torch.cat(rows), torch.tensor([0, 20, 40, 60, 80]))
    assert len(packing.distinct) == 15 + 4 * 5
    model = model_of(PACKED["qwen3"])
    plain = torch.cat([model(row[None]).logits[0].log_softmax(1) for row in rows])
    targets = torch.cat([row.roll(-1) for row in rows])
    naive = plain.gather(1, targets[:, None]).mean()
    use_packed_attention(model)
    shared = packed_logits(model, rows).log_softmax(1).gather(1, targets[:, None]).mean()
    assert abs(float((shared - naive).detach())) < 1e-6 * abs(float(naive.detach())) + 1e-6


def test_a_model_of_another_kind_takes_the_named_padded_path_and_scores_the_same():
    model = model_of(
        GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0)
    )
    rows = rows_of_tokens()
    with torch.no_grad():
        plain = torch.cat([model(row[None]).logits[0] for row in rows])
    scorer = make_scorer(model)
    assert scorer.path is Path.PADDED
    packing = pack_rows(torch.cat(rows), torch.tensor([0, *LENGTHS]).cumsum(0))
    with torch.no_grad():
        padded = model.lm_head(padded_hidden(model, torch.cat(rows), packing))[packing.state_of]
    assert float((padded - plain).abs().max()) < 1e-5 * float(plain.abs().max())
    with pytest.raises(ModelError, match="no packed path"):
        use_packed_attention(model)


def test_a_sliding_window_is_not_packed():
    config = MistralConfig(**SIZES, sliding_window=4)
    model = model_of(config)
    assert make_scorer(model).path is Path.PADDED


def test_a_model_that_caps_its_logits_is_refused():
    config = Gemma2Config(**SIZES, query_pre_attn_scalar=16, final_logit_softcapping=2.0)
    with pytest.raises(ModelError, match="scales or caps its logits"):
        make_scorer(model_of(config))


def test_a_padded_batch_does_not_slip_into_packed_attention():
    model = model_of(PACKED["qwen3"])
    use_packed_attention(model)
    with pytest.raises(ModelError, match="takes no attention mask"):
        model(torch.tensor([[1, 2, 0]]), attention_mask=torch.tensor([[1, 1, 0]]))
