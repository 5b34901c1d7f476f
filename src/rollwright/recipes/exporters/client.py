"""What a service's client is to us: it begins, takes records one by one, and ends; all on a thread of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["ExportClient", "ExportRecord", "ExportedRun", "MissingClientError"]


class MissingClientError(Exception):
    """The package of a service is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """What one step, one evaluation or the gates of a step measured."""

    step: int
    values: Mapping[str, float]
    is_last_of_step: bool
    """False for an evaluation and for gates, whose step is told of after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """Which run it is."""

    run_id: str
    """The same after a resume."""
    name: str
    folder: Path
    configuration: Mapping[str, str]
    """Dotted key to value, as text; without secrets and absolute paths."""
    resumed_step: int | None
    """The step that the run goes on from; None: it begins."""
    history: Sequence[ExportRecord] = ()
    """All that happened up to that step, in order: a kill may have kept the last of it from the service."""


class ExportClient(Protocol):
    """One service. Every method may raise, and may take for ever."""

    @property
    def name(self) -> str:
        """Of the service."""
        ...

    def begin(self, run: ExportedRun) -> None:
        """Open the run there, or go on in it.

        Raises:
            MissingClientError: saying which extra installs the package.
        """
        ...

    def log(self, record: ExportRecord) -> None:
        """Hand a record over."""
        ...

    def end(self) -> None:
        """Hand over what is left and close."""
        ...
