"""Which models run on the fast path, and their shapes."""

from dataclasses import dataclass

from transformers import LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

__all__ = ["DENSE_FAMILIES", "ROW_MULTIPLE", "ROW_MULTIPLES", "DenseShape", "dense_shape", "why_not_dense"]

DENSE_FAMILIES = ("llama (SmolLM2 too)", "qwen2", "qwen3")
ROW_MULTIPLE = 8
"""Rows of every product of a prefill come in multiples of it, or of a larger one of `ROW_MULTIPLES`."""
ROW_MULTIPLES = (2, 4, ROW_MULTIPLE, 16)
"""Multiples that a decode step is tried with in the deterministic mode, the cheapest first."""
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})
_DenseConfig = LlamaConfig | Qwen2Config | Qwen3Config


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseShape:
    """The numbers of a dense decoder with rotary positions and gated SiLU layers."""

    num_layers: int
    hidden: int
    intermediate: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab: int
    norm_eps: float
    max_positions: int
    is_tied: bool
    """The output head is the embedding."""

    @property
    def num_queries_per_kv(self) -> int:
        """Query heads that share one key-value head."""
        return self.num_heads // self.num_kv_heads

    @property
    def num_rotated(self) -> int:
        """Heads that carry positions: queries and keys."""
        return self.num_heads + self.num_kv_heads


def why_not_dense(config: PreTrainedConfig) -> str | None:
    """Why a model cannot take the fast path; None where it can."""
    if type(config) not in (LlamaConfig, Qwen2Config, Qwen3Config):
        return f"its architecture is {config.model_type!r}"
    assert isinstance(config, _DenseConfig)
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act!r}"
    rope = _rope_type(config)
    if rope not in _STATIC_ROPE:
        return f"its rotary positions are of the type {rope!r}, which changes with the length"
    layer_types: list[str] = [] if isinstance(config, LlamaConfig) else list(config.layer_types or [])
    if any(kind != "full_attention" for kind in layer_types):
        return f"its layers are {sorted(set(layer_types))}"
    return None


def dense_shape(config: PreTrainedConfig) -> DenseShape:
    """The shape of a model for which `why_not_dense` has nothing to say."""
    assert isinstance(config, _DenseConfig)
    num_heads = int(config.num_attention_heads)
    stated = None if isinstance(config, Qwen2Config) else config.head_dim
    return DenseShape(
        num_layers=int(config.num_hidden_layers),
        hidden=int(config.hidden_size),
        intermediate=int(config.intermediate_size),
        num_heads=num_heads,
        num_kv_heads=int(config.num_key_value_heads or num_heads),
        head_size=int(stated or config.hidden_size // num_heads),
        vocab=int(config.vocab_size),
        norm_eps=float(config.rms_norm_eps),
        max_positions=int(config.max_position_embeddings),
        is_tied=bool(config.tie_word_embeddings),
    )


def _rope_type(config: _DenseConfig) -> str:
    parameters = config.rope_parameters
    return str(parameters.get("rope_type", "default")) if isinstance(parameters, dict) else "default"
