"""TensorBoard: event files in a folder, written by its own writer."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord, MissingClientError

__all__ = ["TensorBoardClient"]

_PROTO = "tensorboard.compat.proto"
_FLUSH_S = 10


class _Writer(Protocol):
    """As much of TensorBoard's `EventFileWriter` as is used; its messages have no types."""

    def add_event(self, event: object, /) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class TensorBoardClient:
    """Scalars and the configuration as text.

    A resumed run opens another file in the same folder, with a mark behind which TensorBoard shows nothing of the files
    before, and writes all that happened into it again: what a kill kept from the disk is shown, steps that never
    happened are not, and those that are done again are shown once.
    """

    folder: Path | None
    """None: `tensorboard` in the run's folder, where `tensorboard --logdir runs` finds it."""
    name: str = "tensorboard"
    _writer: "_Writer | None" = field(default=None, init=False)

    def begin(self, run: ExportedRun) -> None:
        """Open a file."""
        try:
            made_by = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        except ImportError as error:
            raise MissingClientError(
                "tensorboard is not installed, and nothing is sent there; pip install 'rollwright[tensorboard]'."
            ) from error
        folder = self.folder or run.folder / "tensorboard"
        self._writer = cast("_Writer", made_by(str(folder), flush_secs=_FLUSH_S))
        if run.resumed_step is not None:
            start: Any = import_module(f"{_PROTO}.event_pb2").SessionLog
            self._add(0, session_log=start(status=start.START))
        self._add(0, summary=_summary([_text("configuration/text_summary", _described(run))]))
        for record in run.history:
            self.log(record)

    def log(self, record: ExportRecord) -> None:
        """Add one event with all values."""
        value: Any = import_module(f"{_PROTO}.summary_pb2").Summary.Value
        scalars = [value(tag=name, simple_value=number) for name, number in record.values.items()]
        self._add(record.step, summary=_summary(scalars))

    def end(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, step: int, **content: object) -> None:
        assert self._writer is not None, "begin comes first"
        event: Any = import_module(f"{_PROTO}.event_pb2").Event
        self._writer.add_event(event(wall_time=time.time(), step=step, **content))


def _summary(values: list[Any]) -> object:
    made: object = import_module(f"{_PROTO}.summary_pb2").Summary(value=values)
    return made


def _text(tag: str, text: str) -> object:
    """A value of TensorBoard's text plugin."""
    summary: Any = import_module(f"{_PROTO}.summary_pb2")
    dtype: int = import_module(f"{_PROTO}.types_pb2").DT_STRING
    tensor: object = import_module(f"{_PROTO}.tensor_pb2").TensorProto(dtype=dtype, string_val=[text.encode()])
    plugin = summary.SummaryMetadata.PluginData(plugin_name="text")
    made: object = summary.Summary.Value(tag=tag, metadata=summary.SummaryMetadata(plugin_data=plugin), tensor=tensor)
    return made


def _described(run: ExportedRun) -> str:
    configuration: Mapping[str, str] = run.configuration
    rows = "\n".join(f"| {key} | `{value}` |" for key, value in configuration.items())
    return f"run {run.run_id}\n\n| key | value |\n|---|---|\n{rows}"
