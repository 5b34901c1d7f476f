"""`engine check`: an engine by its name or address, the reference that judges it, and the battery over both."""

import asyncio
import copy
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rollwright.engines import ScriptedEngine
from rollwright.engines.conformance import BigramModel, Finding, ReferenceFn, Subject, check_engine, varied_prompts
from rollwright.recipes.errors import RecipeError
from rollwright.record import Engine, TensorSpec, WeightsManifest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["ENGINES", "EngineCheckOrder", "check_named_engine"]

ENGINES = ("scripted", "embedded", "vllm")
"""Names of the engines that are opened here; an address is one that serves already."""

_VOCAB = 256
_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.3}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheckOrder:
    """What to check, and how."""

    name: str
    """One of `ENGINES`, or the address of a server: `http://HOST:PORT`."""
    model: Path | None = None
    """A Hugging Face folder that is served and judged by; None: a small random model. An address needs one."""
    served_name: str | None = None
    """What a server calls the model; None: the only one that it lists."""
    python: Path = Path(".venv-vllm/bin/python")
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    num_slots: int = 8
    max_context_tokens: int = 128
    tolerance: float | None = None
    """Nats; None: by the type of numbers."""
    patience_s: float = 60.0


def check_named_engine(order: EngineCheckOrder, tell: Callable[[Finding], None]) -> int:
    """Hold an engine to the protocol.

    Args:
        order: which, and how.
        tell: hears of each finding as it is known.

    Returns:
        How many items failed.

    Raises:
        RecipeError: for a name that names nothing, or an address without a model to judge it by.
    """

    async def run(subject: Subject) -> int:
        failed = 0
        async for finding in check_engine(subject):
            tell(finding)
            failed += finding.status == "failed"
        return failed

    with _subject(order) as subject:
        return asyncio.run(run(subject))


@contextmanager
def _subject(order: EngineCheckOrder) -> Generator[Subject]:
    if order.name == "scripted":
        yield _scripted(order)
        return
    is_address = order.name.startswith(("http://", "https://"))
    if not is_address and order.name not in ENGINES:
        raise RecipeError(
            f"no engine {order.name!r}; there are {', '.join(ENGINES)}, or give the address of a server as "
            "http://HOST:PORT."
        )
    if is_address and order.model is None:
        raise RecipeError(f"{order.name} needs --model FOLDER: the model that it serves, by which it is judged.")
    models = _models(order)
    with tempfile.TemporaryDirectory(prefix="rollwright-") as folder:
        served = _Served(order=order, models=models, folder=Path(folder))
        vocab = int(models[0].config.vocab_size)
        yield Subject(
            open=served.at_address if is_address else served.vllm if order.name == "vllm" else served.embedded,
            reference=_reference_of(models),
            prompts=varied_prompts(vocab, order.max_context_tokens // 4),
            publish=None if is_address else served.publish,
            tolerance=_TOLERANCES[order.dtype] if order.tolerance is None else order.tolerance,
            patience_s=order.patience_s,
        )


def _scripted(order: EngineCheckOrder) -> Subject:
    model = BigramModel()
    return Subject(
        open=lambda: ScriptedEngine(model.reply, scores=model.scores, max_context_tokens=order.max_context_tokens),
        reference=model.reference,
        prompts=varied_prompts(64, order.max_context_tokens // 4),
        publish=lambda version: _manifest(version, ()),
        patience_s=order.patience_s,
    )


def _models(order: EngineCheckOrder) -> "tuple[PreTrainedModel, PreTrainedModel]":
    """The model of even versions, and that of odd ones: the same with every matrix a little off."""
    from rollwright.learner.models import ModelShape, load_causal_lm, make_model

    if order.model is None:
        shape = ModelShape(
            vocab_size=_VOCAB,
            hidden_size=96,
            num_layers=2,
            num_heads=2,
            num_kv_heads=1,
            intermediate_size=128,
            max_positions=max(order.max_context_tokens, 64),
            initial_std=0.15,
        )
        model = make_model(shape, seed=0)
    else:
        model = load_causal_lm(order.model)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        if parameter.dim() > 1:
            parameter.data.add_(parameter.data.roll(1, 0), alpha=0.2)
    return model, other


def _reference_of(models: "tuple[PreTrainedModel, PreTrainedModel]") -> ReferenceFn:
    """What the learner would say of these models."""
    from rollwright.learner.forward import make_scorer
    from rollwright.learner.probing import context_logprobs

    scorers = [make_scorer(model) for model in models]
    return lambda version, context: context_logprobs(scorers[version % 2], [context])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """The models of a check, served."""

    order: EngineCheckOrder
    models: "tuple[PreTrainedModel, PreTrainedModel]"
    folder: Path

    def embedded(self) -> Engine:
        from rollwright.engines.embedded.opening import EmbeddedSettings, open_engine

        order = self.order
        settings = EmbeddedSettings(
            num_slots=order.num_slots,
            max_context_tokens=order.max_context_tokens,
            dtype=order.dtype,
            device=order.device,
            mode="fast",
        )
        return open_engine(self.models[0], settings, self._weights)

    def vllm(self) -> Engine:
        from rollwright.engines.served import VllmSettings, open_vllm
        from rollwright.learner.models import save_model
        from rollwright.recipes.build.engine import files_of

        order, folder = self.order, self.folder / "model"
        if not folder.exists():
            folder.mkdir()
            save_model(self.models[0], folder)
        settings = VllmSettings(
            python=order.python,
            num_slots=order.num_slots,
            max_context_tokens=order.max_context_tokens,
            dtype=order.dtype,
            device=order.device,
        )
        return open_vllm(folder, settings, file_of=files_of(self._weights))

    def at_address(self) -> Engine:
        from rollwright.engines.served.openai import OpenAiSettings, open_openai

        order = self.order
        settings = OpenAiSettings(
            address=order.name,
            model=order.served_name,
            vocab=int(self.models[0].config.vocab_size),
            num_slots=order.num_slots,
            max_context_tokens=order.max_context_tokens,
        )
        return open_openai(settings)

    def publish(self, version: int) -> WeightsManifest:
        from rollwright.learner.state import named_weights, tensor_specs

        return _manifest(version, tensor_specs(named_weights(self.models[version % 2])))

    def _weights(self, manifest: WeightsManifest) -> dict[str, object]:
        from rollwright.learner.state import named_weights

        return dict(named_weights(self.models[manifest.version % 2]))


def _manifest(version: int, tensors: tuple[TensorSpec, ...]) -> WeightsManifest:
    return WeightsManifest(
        policy="policy",
        version=version,
        update=version,
        kind="full",
        base_version=None,
        location="memory:",
        tensors=tensors,
    )
