"""Weights & Biases, online or offline, through its own client."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord, MissingClientError

if TYPE_CHECKING:
    from wandb import Run

__all__ = ["WandbClient"]


@dataclass(slots=True, kw_only=True)
class WandbClient:
    """One run there with the id of the run here.

    A resumed run goes on in it. The service takes no step twice: of a step that is done again it keeps what was sent
    first, which in the deterministic mode is the same.
    """

    project: str
    entity: str
    """Empty: the account's own."""
    run_name: str
    """Empty: the name of the run's folder."""
    mode: Literal["online", "offline"]
    folder: Path
    """Where its own files go, in a folder `wandb`."""
    name: str = "wandb"
    _run: "Run | None" = field(default=None, init=False)

    def begin(self, run: ExportedRun) -> None:
        """Log in with what the client finds on this machine, and open the run."""
        try:
            import wandb
        except ImportError as error:
            raise MissingClientError(
                "wandb is not installed, and nothing is sent there; pip install 'rollwright[wandb]'."
            ) from error
        self.folder.mkdir(parents=True, exist_ok=True)
        # Neither the code nor the machine's user, paths and arguments: what a run was is in its folder.
        settings = wandb.Settings(
            console="off", silent=True, disable_code=True, disable_git=True, x_disable_meta=True, x_disable_stats=True
        )
        self._run = wandb.init(
            project=self.project,
            entity=self.entity or None,
            name=self.run_name or run.name,
            id=run.run_id,
            dir=str(self.folder),
            mode=self.mode,
            resume="allow",
            reinit="create_new",
            config=dict(run.configuration),
            settings=settings,
        )

    def log(self, record: ExportRecord) -> None:
        """Add the values at their step."""
        assert self._run is not None, "begin comes first"
        self._run.log(dict(record.values), step=record.step)

    def end(self) -> None:
        """Hand over what is left and close the run."""
        if self._run is not None:
            self._run.finish()
