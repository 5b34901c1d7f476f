"""Engines: token ids in; token ids, log-probabilities and policy versions out. One back-end a file or folder.

The light engines are here; `rollwright.engines.embedded` needs torch and is imported by name, and so is
`rollwright.engines.served`, whose engines run in processes of their own. `rollwright.engines.conformance` holds any of
them to the protocol.
"""

from rollwright.engines.deltas import Delta, apply_delta, make_delta
from rollwright.engines.errors import (
    DeterminismError,
    EngineError,
    EngineLostError,
    UnsupportedModelError,
    WeightsRefusedError,
)
from rollwright.engines.played import PlayedEngine
from rollwright.engines.recorder import RecordedChunk, RecordingEngine
from rollwright.engines.scripted import Reply, ReplyFn, ScoreFn, ScriptedEngine, replies_in_order

__all__ = [
    "Delta",
    "DeterminismError",
    "EngineError",
    "EngineLostError",
    "PlayedEngine",
    "RecordedChunk",
    "RecordingEngine",
    "Reply",
    "ReplyFn",
    "ScoreFn",
    "ScriptedEngine",
    "UnsupportedModelError",
    "WeightsRefusedError",
    "apply_delta",
    "make_delta",
    "replies_in_order",
]
