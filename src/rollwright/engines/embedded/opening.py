"""Makes an embedded engine from a model or a folder."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel

from rollwright.engines.embedded.caches import EngineCounters
from rollwright.engines.embedded.decoder import Decoder, DecoderSettings
from rollwright.engines.embedded.dense import DenseRunner
from rollwright.engines.embedded.dense_weights import lay_out
from rollwright.engines.embedded.engine import EmbeddedEngine, EngineFacts
from rollwright.engines.embedded.generic import GenericRunner
from rollwright.engines.embedded.probe import probe
from rollwright.engines.embedded.runner import Runner
from rollwright.engines.embedded.shapes import DENSE_FAMILIES, ROW_MULTIPLES, dense_shape, why_not_dense
from rollwright.engines.embedded.thread import DecodeThread, WeightSource
from rollwright.engines.embedded.weights import weight_names
from rollwright.engines.errors import DeterminismError, EngineError, UnsupportedModelError
from rollwright.engines.stops import DecodeText
from rollwright.record import Capabilities, Swap, WeightReader

__all__ = ["EmbeddedSettings", "load_engine", "make_runner", "open_engine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """How an embedded engine serves."""

    policy: str = "policy"
    version: int = 0
    """Of the weights that it is opened with."""
    num_slots: int = 64
    """Contexts held at once; each can grow to `max_context_tokens`."""
    max_context_tokens: int = 1024
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"
    mode: Literal["deterministic", "fast"] = "deterministic"
    """deterministic: an episode gives the same bits whatever else is in the batch, and no open session is evicted."""
    evict_after_s: float = 5.0
    """In the fast mode, an open session idle for so long may lose its cache to one that waits for a place."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        if self.num_slots < 1 or self.max_context_tokens < 2:
            raise EngineError(
                f"num_slots={self.num_slots}, max_context_tokens={self.max_context_tokens}; needed: at least 1 and 2."
            )
        if self.mode == "deterministic" and (self.dtype != "float32" or torch.device(self.device).type != "cpu"):
            raise EngineError(
                f"the deterministic mode holds in float32 on a CPU, and {self.dtype} on {self.device!r} is asked for; "
                "set engine.mode to 'fast' there."
            )


def open_engine(
    model: PreTrainedModel, settings: EmbeddedSettings, read: WeightReader, decode_text: DecodeText | None = None
) -> EmbeddedEngine:
    """Serve a copy of a model's weights; the thread runs until `close`.

    Args:
        model: a causal LM; it may be trained on while the engine serves.
        settings: how to serve it.
        read: gives the tensors of a published manifest.
        decode_text: token ids to text, for stop strings; without it they are refused.

    Raises:
        UnsupportedModelError: for what is no causal LM, or has not so many positions.
        DeterminismError: where the deterministic mode cannot be kept on this machine.
    """
    runner = make_runner(model, settings)
    counters = EngineCounters()
    decoder_settings = DecoderSettings(
        num_slots=settings.num_slots,
        version=settings.version,
        evict_after_s=settings.evict_after_s if settings.mode == "fast" else float("inf"),
        decode_text=decode_text,
    )
    decoder = Decoder(runner, decoder_settings, time.monotonic, counters)
    weights = WeightSource(policy=settings.policy, names=weight_names(model), read=read)
    thread = DecodeThread(runner, decoder, weights, time.monotonic)
    facts = EngineFacts(
        policy=settings.policy,
        vocab=runner.vocab,
        has_text=decode_text is not None,
        capabilities=Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=settings.mode == "deterministic",
            swaps=frozenset[Swap](["drain", "continue", "recompute"]),
            tensors=frozenset(),
            max_context_tokens=settings.max_context_tokens,
            num_slots=settings.num_slots,
        ),
    )
    thread.start()
    return EmbeddedEngine(thread, facts, counters)


def load_engine(
    folder: Path, settings: EmbeddedSettings, read: WeightReader, decode_text: DecodeText | None = None
) -> EmbeddedEngine:
    """Serve the model of a Hugging Face folder; otherwise as `open_engine`.

    Raises:
        UnsupportedModelError: when no causal LM is there.
    """
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=_torch_type(settings.dtype),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    except Exception as error:  # noqa: BLE001 - a malformed folder raises whatever stood in the way
        if "trust_remote_code" in str(error):
            raise UnsupportedModelError(
                f"the model in {folder} needs Python code of its own, which is never run. {_what_runs()}"
            ) from error
        raise UnsupportedModelError(f"no causal LM of `transformers` in {folder}: {error}. {_what_runs()}") from error
    return open_engine(model, settings, read, decode_text)


def make_runner(model: PreTrainedModel, settings: EmbeddedSettings) -> Runner:
    """The fast path where the model has one, else its own forward pass.

    Raises:
        UnsupportedModelError: for what is no causal LM, or has not so many positions.
        DeterminismError: where the deterministic mode cannot be kept on this machine.
    """
    config = model.config
    if not isinstance(model, GenerationMixin) or config.is_encoder_decoder:
        raise UnsupportedModelError(f"{type(model).__name__} is no causal LM. {_what_runs()}")
    if why_not_dense(config) is None:
        return _make_dense(model, settings)
    most = int(config.max_position_embeddings)
    _check_positions(most, settings)
    moved = model if next(model.parameters()).dtype == _torch_type(settings.dtype) else None
    if moved is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} runs by its own forward pass, in the type it was loaded in; load it as "
            f"{settings.dtype}. {_what_runs()}"
        )
    return GenericRunner(
        model=moved,
        vocab=int(config.vocab_size),
        num_places=settings.num_slots,
        max_context_tokens=settings.max_context_tokens,
        device=torch.device(settings.device),
    )


def _make_dense(model: PreTrainedModel, settings: EmbeddedSettings) -> DenseRunner:
    shape = dense_shape(model.config)
    _check_positions(shape.max_positions, settings)
    device, dtype = torch.device(settings.device), _torch_type(settings.dtype)
    weights = lay_out(model.state_dict(), shape, dtype=dtype, device=device)
    rotary = _rotary(model, settings.max_context_tokens)

    def make(num_layers: int, row_multiple: int) -> DenseRunner:
        return DenseRunner(
            shape=replace(shape, num_layers=num_layers),
            weights=replace(weights, layers=weights.layers[:num_layers]),
            rotary=rotary,
            num_places=settings.num_slots,
            row_multiple=row_multiple,
        )

    if settings.mode == "fast":
        return make(shape.num_layers, 1)
    few = min(shape.num_layers, 2)
    return make(shape.num_layers, _proven_multiple(lambda row_multiple: make(few, row_multiple)))


def _proven_multiple(make: Callable[[int], DenseRunner]) -> int:
    """The least multiple of rows with which the probe finds nothing; all layers are alike, so a few are asked.

    Raises:
        DeterminismError: where it finds something with all of them.
    """
    found: str | None = None
    for row_multiple in ROW_MULTIPLES:
        found = probe(make(row_multiple))
        if found is None:
            return row_multiple
    threads = torch.get_num_threads()
    *some, last = (str(number) for number in (1, 2, 4, 8) if number != threads)
    raise DeterminismError(
        f"the deterministic mode cannot be kept on this machine with {threads} thread{'s'[: threads != 1]}: {found}. "
        f"Try {', '.join(some)} or {last} threads, which were seen to hold elsewhere, or set engine.mode to 'fast'."
    )


def _rotary(model: PreTrainedModel, num_positions: int) -> Tensor:
    """(2, n, head size) cosines and sines as the model's own module computes them."""
    module = model.get_submodule("model.rotary_emb")
    assert isinstance(module, nn.Module)
    where = next(module.buffers()).device
    positions = torch.arange(num_positions, device=where)[None]
    with torch.no_grad():
        cosines, sines = module(torch.zeros(1, device=where), positions)
    return torch.stack([cosines[0], sines[0]])


def _check_positions(most: int, settings: EmbeddedSettings) -> None:
    if settings.max_context_tokens > most:
        raise UnsupportedModelError(
            f"engine.max_context_tokens is {settings.max_context_tokens}, and the model has {most} positions; "
            "lower the first."
        )


def _torch_type(name: Literal["float32", "bfloat16"]) -> torch.dtype:
    return torch.float32 if name == "float32" else torch.bfloat16


def _what_runs() -> str:
    families = ", ".join(DENSE_FAMILIES)
    return f"The fast path runs {families}; other causal LMs of `transformers` run by their own forward pass, slower."
