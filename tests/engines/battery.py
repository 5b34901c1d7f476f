"""The table of engines that pass the shared battery; a new engine adds a row."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from rollwright.engines import PlayedEngine, RecordingEngine, Reply, ScriptedEngine
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.engines.embedded.weights import digest_of, type_name
from rollwright.record import Engine, GenerationRequest, TensorSpec, WeightsManifest
from tests.engines.small import small_model

MAX_CONTEXT = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An engine under test."""

    name: str
    make: Callable[[], Engine]
    manifest: Callable[[int], WeightsManifest]
    """Of weights that it takes under this version."""
    takes_weights: bool = True
    serves_one_policy: bool = True
    draws_slowly: bool = True
    """Whether a request can be met in mid-turn."""


def subjects() -> list[Subject]:
    return [
        Subject(
            name="scripted",
            make=lambda: ScriptedEngine(scripted_reply, max_context_tokens=MAX_CONTEXT),
            manifest=no_weights,
        ),
        Subject(
            name="played",
            make=lambda: PlayedEngine([[5, 6, 0, 7]] * 8, max_context_tokens=MAX_CONTEXT),
            manifest=no_weights,
            takes_weights=False,
            serves_one_policy=False,
            draws_slowly=False,
        ),
        Subject(
            name="recording",
            make=lambda: RecordingEngine(ScriptedEngine(scripted_reply, max_context_tokens=MAX_CONTEXT)),
            manifest=no_weights,
        ),
        Subject(
            name="embedded",
            make=lambda: embedded("qwen3"),
            manifest=lambda version: manifest_of(dict(model_of("qwen3").state_dict()), version),
        ),
        Subject(
            name="embedded, generic path",
            make=lambda: embedded("mistral"),
            manifest=lambda version: manifest_of(dict(model_of("mistral").state_dict()), version),
        ),
    ]


def scripted_reply(request: GenerationRequest) -> Reply:
    """A long reply without a stop token, one token a millisecond."""
    tokens = np.random.default_rng(request.seed).integers(1, 64, 4096)
    if 0 in request.stop_token_ids and request.max_tokens > 3:
        tokens[3] = 0
    return Reply(token_ids=tokens, delay_s=0.001)


def model_of(family: str) -> PreTrainedModel:
    model = small_model(family, head_dim=16, hidden_size=32, intermediate_size=48)
    with torch.no_grad():
        # The stop token 0 comes soon, whatever stands before it.
        model.get_submodule("lm_head").get_parameter("weight")[0] += 0.15
    return model


def embedded(family: str) -> Engine:
    model = model_of(family)
    settings = EmbeddedSettings(num_slots=4, max_context_tokens=MAX_CONTEXT, mode="fast")
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return open_engine(model, settings, lambda manifest: weights)


def no_weights(version: int) -> WeightsManifest:
    return manifest_of({}, version)


def manifest_of(weights: dict[str, torch.Tensor], version: int) -> WeightsManifest:
    specs = tuple(
        TensorSpec(name=name, dtype=type_name(t.dtype), shape=tuple(t.shape), sha256=digest_of(t))
        for name, t in weights.items()
    )
    return WeightsManifest(
        policy="policy",
        version=version,
        update=version,
        kind="full",
        base_version=None,
        location="memory:",
        tensors=specs,
    )
