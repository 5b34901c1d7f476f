"""Stretches of small operations as one call, and the same as they stand."""

import importlib.util
from types import ModuleType
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rollwright.engines.embedded import dense, one_call, opening
from rollwright.engines.embedded.opening import EmbeddedSettings
from rollwright.engines.embedded.runner import PrefillRow
from tests.engines.small import VOCAB, small_model

STRETCHES = [name for name in one_call.__all__ if isinstance(vars(one_call)[name], torch.jit.ScriptFunction)]


@pytest.fixture
def as_they_stand(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The same module as a Python without TorchScript reads it."""
    monkeypatch.setattr(one_call.sys, "version_info", (3, 14))
    spec = importlib.util.spec_from_file_location("one_call_as_they_stand", one_call.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.undo()
    return module


def logits_of(family: str, dtype: Literal["float32", "bfloat16"]) -> NDArray[np.float32]:
    """Prompts of three lengths, and some steps behind them."""
    settings = EmbeddedSettings(num_slots=8, max_context_tokens=160, mode="fast", dtype=dtype)
    runner = opening.make_runner(small_model(family), settings)
    chance = np.random.default_rng(0)
    lengths = np.array([3, 64, 70])
    rows = [
        PrefillRow(place=i, start=0, token_ids=chance.integers(0, VOCAB, n).astype(np.int32))
        for i, n in enumerate(lengths)
    ]
    found = [runner.prefill(rows)]
    for step in range(4):
        found.append(runner.decode(np.arange(3), chance.integers(0, VOCAB, 3), lengths + step))
    return np.concatenate(found)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_one_call_gives_the_bits_of_the_operations_as_they_stand(as_they_stand, monkeypatch, family, dtype):
    in_one_call = logits_of(family, dtype)
    assert any(isinstance(vars(one_call)[name], torch.jit.ScriptFunction) for name in STRETCHES)
    for name in STRETCHES:
        assert not isinstance(vars(as_they_stand)[name], torch.jit.ScriptFunction)
        monkeypatch.setattr(dense, name, vars(as_they_stand)[name])
    assert np.array_equal(logits_of(family, dtype), in_one_call)
