"""The embedded engine: a causal LM of `transformers` on this machine, by torch."""

from rollwright.engines.embedded.caches import EngineCounters
from rollwright.engines.embedded.engine import EmbeddedEngine
from rollwright.engines.embedded.opening import EmbeddedSettings, load_engine, open_engine

__all__ = ["EmbeddedEngine", "EmbeddedSettings", "EngineCounters", "load_engine", "open_engine"]
