"""A served engine over the fake service."""

import hashlib
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save, save_file

from rollwright.engines.conformance import Subject, varied_prompts
from rollwright.engines.served import ServedEngine, VllmSettings, open_vllm
from rollwright.record import TensorSpec, WeightsManifest
from tests.engines.letters import MAX_CONTEXT, as_text

FAKE = Path(__file__).with_name("fake_service.py")
VOCAB = 64


def weights_of(version: int) -> dict[str, np.ndarray]:
    """Two sets that take turns."""
    random = np.random.default_rng(version % 2)
    table = random.normal(0.0, 2.0, (VOCAB, VOCAB)).astype(np.float32)
    return {"table": table, "bias": random.normal(0.0, 0.5, VOCAB).astype(np.float32)}


def reference(version: int, context) -> np.ndarray:
    weights = weights_of(version)
    rows = (weights["table"][context[:-1]] + weights["bias"]).astype(np.float64)
    return (rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))).astype(np.float32)


def manifest(version: int, weights: dict[str, np.ndarray] | None = None) -> WeightsManifest:
    given = weights_of(version) if weights is None else weights
    specs = tuple(
        TensorSpec(name=name, dtype=str(a.dtype), shape=a.shape, sha256=hashlib.sha256(a.tobytes()).hexdigest())
        for name, a in given.items()
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


def files_in(folder: Path, spoil=lambda body: body):
    """The file of a version, as it should be, or spoiled."""

    @contextmanager
    def file_of(asked: WeightsManifest):
        file = folder / f"{asked.version}.safetensors"
        file.write_bytes(spoil(save(weights_of(asked.version))))
        yield file
        file.unlink()

    return file_of


def opened(folder: Path, *, fault: str = "", spoil=lambda body: body, **settings: Any) -> ServedEngine:
    model = folder / "model"
    model.mkdir(exist_ok=True)
    save_file(weights_of(0), model / "model.safetensors")
    (model / "config.json").write_text(json.dumps({"vocab_size": VOCAB}))
    (model / "fault").write_text(fault)
    fields: dict[str, Any] = {"python": Path(sys.executable), "num_slots": 4, "max_context_tokens": MAX_CONTEXT}
    fields |= {"start_s": 60.0, **settings}
    chosen = VllmSettings(**fields)
    return open_vllm(model, chosen, script=FAKE, file_of=files_in(folder, spoil), decode_text=as_text)


def subject(folder: Path, **changes) -> Subject:
    return Subject(
        open=lambda: opened(folder, **changes),
        reference=reference,
        prompts=varied_prompts(VOCAB, 16),
        publish=manifest,
        decode_text=as_text,
        patience_s=60.0,
    )
