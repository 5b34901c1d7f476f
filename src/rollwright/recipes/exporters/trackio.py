"""trackio: a local board with the calls of Weights & Biases."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord, MissingClientError

__all__ = ["TrackioClient"]


class _Run(Protocol):
    log: Callable[..., None]
    finish: Callable[[], None]


class _Module(Protocol):
    init: Callable[..., _Run]


@dataclass(slots=True, kw_only=True)
class TrackioClient:
    """One run there with the id of the run here as its name.

    A resumed run goes on in it. trackio keeps every record that it is given, so a step that is done again stands there
    twice, at the same place of the axis; in the deterministic mode the two are the same.
    """

    project: str
    run_name: str
    """Empty: the id of the run."""
    name: str = "trackio"
    _run: "_Run | None" = field(default=None, init=False)

    def begin(self, run: ExportedRun) -> None:
        """Open the run in trackio's folder on this machine."""
        try:
            module = cast("_Module", importlib.import_module("trackio"))
        except ImportError as error:
            raise MissingClientError(
                "trackio is not installed, and nothing is sent there; pip install 'rollwright[trackio]'."
            ) from error
        configuration: Mapping[str, str] = run.configuration
        self._run = module.init(
            project=self.project,
            name=self.run_name or run.run_id,
            config=dict(configuration),
            resume="allow",
            embed=False,
        )

    def log(self, record: ExportRecord) -> None:
        """Add the values at their step."""
        assert self._run is not None, "begin comes first"
        self._run.log(dict(record.values), step=record.step)

    def end(self) -> None:
        """Hand over what is left and close the run."""
        if self._run is not None:
            self._run.finish()
