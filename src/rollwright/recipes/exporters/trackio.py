"""trackio: a local board with the calls of Weights & Biases."""

import importlib
import io
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Protocol, TextIO, cast

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord, MissingClientError

__all__ = ["TrackioClient"]

_ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")
"""Environment variables that let trackio send to another machine, whose rows it does not read back."""


class _Run(Protocol):
    id: str
    name: str
    log: Callable[..., None]
    finish: Callable[[], None]


class _Module(Protocol):
    init: Callable[..., _Run]


class _Storage(Protocol):
    get_logs: Callable[..., Sequence[Mapping[str, object]]]


@dataclass(slots=True, kw_only=True)
class TrackioClient:
    """One run there with the id of the run here as its name.

    A resumed run goes on in it. What is there already is not sent again: of a step that is done again it keeps what was
    sent first, which in the deterministic mode is the same.
    """

    project: str
    run_name: str
    """Empty: the id of the run."""
    name: str = "trackio"
    _run: "_Run | None" = field(default=None, init=False)
    _there: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]], init=False)
    """By step, the names that it had when it was opened."""

    def begin(self, run: ExportedRun) -> None:
        """Open the run in trackio's folder on this machine."""
        try:
            module = cast("_Module", importlib.import_module("trackio"))
        except ImportError as error:
            raise MissingClientError(
                "trackio is not installed, and nothing is sent there; pip install 'rollwright[trackio]'."
            ) from error
        # A run is found by its name alone: a new one never goes on in another that was given the same name.
        is_found = run.resumed_step is not None or not self.run_name
        with redirect_stdout(_SilentHere.around(sys.stdout)):
            self._run = module.init(
                project=self.project,
                name=self.run_name or run.run_id,
                config=dict(run.configuration),
                resume="allow" if is_found else "never",
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
        if run.resumed_step is not None and not any(os.environ.get(name) for name in _ELSEWHERE):
            self._there = _names_by_step(self.project, self._run)
            for record in run.history:
                self.log(record)

    def log(self, record: ExportRecord) -> None:
        """Add the values at their step, but for those that are there."""
        assert self._run is not None, "begin comes first"
        there = self._there.get(record.step, frozenset())
        values = {name: value for name, value in record.values.items() if name not in there}
        if values:
            self._run.log(values, step=record.step)

    def end(self) -> None:
        """Hand over what is left and close the run."""
        if self._run is not None:
            with redirect_stdout(_SilentHere.around(sys.stdout)):
                self._run.finish()


def _names_by_step(project: str, run: _Run) -> Mapping[int, frozenset[str]]:
    storage = cast("_Storage", importlib.import_module("trackio.sqlite_storage").SQLiteStorage)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for row in storage.get_logs(project, run.name, run_id=run.id):
        step = row["step"]
        assert isinstance(step, int), f"trackio keeps step {step!r}, and a step is a whole number"
        found[step].update(row)
    return {step: frozenset(names) for step, names in found.items()}


class _SilentHere(io.TextIOBase):
    """Standard output without what this thread prints: trackio greets, and here a screen or a machine reads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    @classmethod
    def around(cls, stream: TextIO) -> TextIO:
        return cast("TextIO", cls(stream))

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - the base class has an attribute
        return self._stream.encoding

    def write(self, s: str, /) -> int:
        return len(s) if threading.get_ident() == self._thread else self._stream.write(s)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()
