"""What a verifier says when it cannot grade."""

__all__ = ["GoldError", "VerifierSetupError"]


class GoldError(ValueError):
    """The task's own answer cannot be graded against: a fault of the data, so no score at all."""


class VerifierSetupError(ValueError):
    """A verifier or a composition that cannot be built as given."""
