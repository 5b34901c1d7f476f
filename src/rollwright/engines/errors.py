"""Errors of the engines, named by the wall they stand at."""

from rollwright.record import EngineLostError

__all__ = ["DeterminismError", "EngineError", "EngineLostError", "UnsupportedModelError", "WeightsRefusedError"]


class EngineError(ValueError):
    """A request or setting that this engine cannot honour; nothing was drawn."""


class UnsupportedModelError(EngineError):
    """A model that this engine cannot run; the sentence lists what runs."""


class DeterminismError(EngineError):
    """The probe at start found that a row's bits depend on its neighbours on this machine."""


class WeightsRefusedError(EngineError):
    """A publication that is not complete by name, shape and digest; the old version serves on."""
