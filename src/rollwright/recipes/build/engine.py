"""From the engine's configuration to an engine; what needs torch is imported inside."""

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast

from rollwright.recipes.build.machine import role_threads
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Engine, WeightReader, WeightsManifest
from rollwright.runtime.probes import ProbeRule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rollwright.engines.served import FileOf

__all__ = ["build_engine", "files_of", "served_rule"]


def build_engine(recipe: RecipeConfig, model: "PreTrainedModel", read: WeightReader, *, version: int) -> Engine:
    """An engine of the model's architecture, on a thread or in a process of its own until it is closed.

    Args:
        recipe: its engine section.
        model: whose weights it serves first; it may be trained on meanwhile.
        read: gives the tensors of a publication.
        version: the step after which the model's weights stood.
    """
    match recipe.engine.kind:
        case "embedded":
            return _embedded(recipe, model, read, version)
        case "vllm":
            return _vllm(recipe, model, read, version)
        case _:
            assert_never(recipe.engine.kind)


def _embedded(recipe: RecipeConfig, model: "PreTrainedModel", read: WeightReader, version: int) -> Engine:
    from rollwright.engines.embedded.opening import EmbeddedSettings, open_engine

    engine = recipe.engine
    settings = EmbeddedSettings(
        version=version,
        num_slots=engine.num_slots,
        max_context_tokens=engine.max_context_tokens,
        dtype=engine.dtype,
        device=engine.device,
        mode=engine.mode,
    )
    return open_engine(model, settings, read)


def _vllm(recipe: RecipeConfig, model: "PreTrainedModel", read: WeightReader, version: int) -> Engine:
    from rollwright.engines.served import VllmSettings, open_vllm
    from rollwright.learner.models import save_model

    engine = recipe.engine
    settings = VllmSettings(
        python=Path(engine.python),
        version=version,
        num_slots=engine.num_slots,
        max_context_tokens=engine.max_context_tokens,
        dtype=engine.dtype,
        device="cpu" if engine.device == "cpu" else "cuda",
        threads=max(role_threads(recipe.runtime).values()),
        cache_gib=engine.cache_gib,
        gpu_memory_share=engine.gpu_memory_share,
        is_eager=engine.eager,
    )
    with tempfile.TemporaryDirectory(prefix="rollwright-") as folder:
        # The service has read it by the time that it is ready.
        save_model(model, Path(folder))
        return open_vllm(Path(folder), settings, file_of=files_of(read))


def files_of(read: WeightReader) -> "FileOf":
    """Writes each publication into a safetensors file for as long as it is read; nothing is pickled."""
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType] - of a package without types

    @contextmanager
    def laid_out(manifest: WeightsManifest) -> Generator[Path]:
        tensors = cast("Mapping[str, Any]", read(manifest))
        with tempfile.TemporaryDirectory(prefix="rollwright-") as folder:
            file = Path(folder) / "weights.safetensors"
            # Tied weights stand under each of their names, so that a head is never left as it was.
            save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, file)
            yield file

    return laid_out


def served_rule(recipe: RecipeConfig, on_breach: Literal["stop", "warn"]) -> ProbeRule:
    """What a version has to pass before anything is sampled from it, where another process holds the weights.

    In float32 vLLM and the learner differ by about 1e-5. What a stale head, a skipped tensor or layers in another order
    do is larger by far; numbers cut to half of their bits lie in between.
    """
    if recipe.engine.dtype == "float32":
        return ProbeRule(max_logprob_gap=1e-3, max_logit_gap=2e-3, on_breach=on_breach)
    return ProbeRule(max_logprob_gap=0.3, max_logit_gap=0.6, on_breach=on_breach)
