"""What stops a run, said in one sentence with what to do."""

__all__ = [
    "LedgerError",
    "NoProgressError",
    "ReplayError",
    "RunPausedError",
    "RunStoppedError",
    "RuntimeRunError",
    "first_of",
]


class RuntimeRunError(Exception):
    """A run that cannot go on; what was committed stays."""


class LedgerError(RuntimeRunError):
    """Slots do not add up: the account of the run is wrong, so it stops."""


class NoProgressError(RuntimeRunError):
    """Nothing can be trained: every group of late failed for good."""


class ReplayError(RuntimeRunError):
    """A replay came out otherwise than the run that it follows."""


class RunStoppedError(RuntimeRunError):
    """The user asked to stop; the finished steps are saved."""


class RunPausedError(RuntimeRunError):
    """An alarm stopped the run; its state is kept, and it goes on once someone has looked."""


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first: task groups nest, a person wants the sentence inside."""
    error = errors.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType] - a group's type is not known
