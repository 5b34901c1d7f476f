"""What stops a run, said in one sentence with what to do."""

__all__ = ["LedgerError", "NoProgressError", "RunStoppedError", "RuntimeRunError"]


class RuntimeRunError(Exception):
    """A run that cannot go on; what was committed stays."""


class LedgerError(RuntimeRunError):
    """Slots do not add up: the account of the run is wrong, so it stops."""


class NoProgressError(RuntimeRunError):
    """Nothing can be trained: every group of late failed for good."""


class RunStoppedError(RuntimeRunError):
    """The user asked to stop; the finished steps are saved."""
