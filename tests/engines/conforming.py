"""Subjects for the conformance battery: what is opened, and the reference that judges it."""

from typing import Any

import torch
from transformers import PreTrainedModel

from rollwright.engines import ScriptedEngine
from rollwright.engines.conformance import BigramModel, Subject, varied_prompts
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import Engine
from tests.engines.battery import manifest_of, no_weights
from tests.engines.letters import MAX_CONTEXT, as_text
from tests.engines.small import VOCAB, small_model


def reference_of(models: list[PreTrainedModel]):
    """Versions take turns with these models."""

    def reference(version, context):
        with torch.no_grad():
            logits = models[version % len(models)](input_ids=torch.tensor(context.tolist())[None]).logits[0, :-1]
        return torch.log_softmax(logits.double(), dim=-1).float().numpy()

    return reference


def embedded_subject(**settings) -> Subject:
    models = [small_model("qwen3", seed=seed, head_dim=16, hidden_size=32, intermediate_size=48) for seed in (0, 1)]
    weights = [{name: t.detach().clone() for name, t in model.state_dict().items()} for model in models]
    chosen: dict[str, Any] = {"num_slots": 4, "max_context_tokens": MAX_CONTEXT, "mode": "fast", **settings}

    def opened() -> Engine:
        return open_engine(models[0], EmbeddedSettings(**chosen), lambda m: weights[m.version % 2], as_text)

    return Subject(
        open=opened,
        reference=reference_of(models),
        prompts=varied_prompts(VOCAB, 16),
        publish=lambda version: manifest_of(weights[version % 2], version),
        decode_text=as_text,
        patience_s=20.0,
    )


def scripted_subject() -> Subject:
    model = BigramModel(decode_text=as_text)
    return Subject(
        open=lambda: ScriptedEngine(model.reply, scores=model.scores, max_context_tokens=MAX_CONTEXT),
        reference=model.reference,
        prompts=varied_prompts(64, 16),
        publish=no_weights,
        decode_text=as_text,
        patience_s=20.0,
    )
