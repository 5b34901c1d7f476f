"""Errors of this room: models that cannot be loaded, updates that cannot be made, checkpoints that cannot be read."""

__all__ = ["CheckpointError", "LearnerError", "ModelError", "NonFiniteError"]


class LearnerError(ValueError):
    """The learner was asked for something that it cannot do as it stands."""


class ModelError(LearnerError):
    """A model is not there, or is of a kind that this learner does not train."""


class CheckpointError(LearnerError):
    """A checkpoint folder is missing, incomplete, changed, or belongs to another model."""


class NonFiniteError(ArithmeticError):
    """Too many updates in a row were not finite; the weights are those of the last good update."""
