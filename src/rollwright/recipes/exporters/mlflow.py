"""MLflow, through its own client (`mlflow-skinny` is enough)."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord, MissingClientError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["MlflowExportClient"]

_TAG = "rollwright.run_id"
_SENT_THROUGH = "rollwright/step"
"""The metric that says which steps are there already."""
_MOST_METRICS, _MOST_PARAMS, _LONGEST_PARAM = 1000, 100, 500
"""Of one request."""

_Item = TypeVar("_Item")


@dataclass(slots=True, kw_only=True)
class MlflowExportClient:
    """One MLflow run, found again by a tag with the id of the run here.

    A resumed run goes on in it. Steps that are there already are not sent again: of a step that is done again it keeps
    what was sent first, which in the deterministic mode is the same.
    """

    uri: str
    """Of the tracking server or store."""
    experiment: str
    run_name: str
    """Empty: the name of the run's folder."""
    name: str = "mlflow"
    _client: "MlflowClient | None" = field(default=None, init=False)
    _run_id: str = field(default="", init=False)
    _sent_through: int = field(default=-1, init=False)

    def begin(self, run: ExportedRun) -> None:
        """Find the run, or make it."""
        if self.uri.startswith(("file:", "./", "/")) or "://" not in self.uri:
            # Its file store is asked for by name, and the client refuses it unless it is told so in this way.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingClientError(
                "mlflow is not installed, and nothing is sent there; pip install 'rollwright[mlflow]'."
            ) from error
        self._client = client = MlflowClient(tracking_uri=self.uri)
        experiment = client.get_experiment_by_name(self.experiment)
        place = client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
        found = client.search_runs([place], filter_string=f"tags.`{_TAG}` = '{run.run_id}'", max_results=1)
        if found:
            self._run_id = found[0].info.run_id
            self._sent_through = int(found[0].data.metrics.get(_SENT_THROUGH, -1))
            client.update_run(self._run_id, status="RUNNING")
        else:
            made = client.create_run(place, run_name=self.run_name or run.name, tags={_TAG: run.run_id})
            self._run_id = made.info.run_id
            self._describe(run)
        for record in run.history:
            self.log(record)

    def log(self, record: ExportRecord) -> None:
        """Add the values at their step, unless it is there already."""
        from mlflow.entities import Metric

        assert self._client is not None, "begin comes first"
        if record.step <= self._sent_through:
            return
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, record.step) for name, value in record.values.items()]
        if record.is_last_of_step:
            metrics.append(Metric(_SENT_THROUGH, float(record.step), now, record.step))
        for part in _parts(metrics, _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=part)

    def end(self) -> None:
        """Mark the run as finished."""
        if self._client is not None:
            self._client.set_terminated(self._run_id)

    def _describe(self, run: ExportedRun) -> None:
        from mlflow.entities import Param

        assert self._client is not None
        params = [Param(key, value[:_LONGEST_PARAM]) for key, value in run.configuration.items()]
        for part in _parts(params, _MOST_PARAMS):
            self._client.log_batch(self._run_id, params=part)


def _parts(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
