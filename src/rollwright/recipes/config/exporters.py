"""Where metrics are sent besides the run's folder."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "ExporterConfig",
    "MlflowConfig",
    "TensorBoardConfig",
    "TrackioConfig",
    "WandbConfig",
]


class _ExporterConfig(StrictConfig):
    """What every service has."""

    names: Literal["rollwright", "trl", "verl"] = "rollwright"
    """Whose names metrics get; what the others have no name for keeps ours, behind
    `rollwright/`."""


class TensorBoardConfig(_ExporterConfig):
    """Event files; `tensorboard --logdir runs` shows them."""

    kind: Literal["tensorboard"] = "tensorboard"
    folder: str = ""
    """Empty: `tensorboard` in the run's folder."""


class WandbConfig(_ExporterConfig):
    """Weights & Biases; the account is that of `wandb login`."""

    kind: Literal["wandb"] = "wandb"
    project: str = Field(default="rollwright", min_length=1)
    entity: str = ""
    """Empty: the account's own."""
    name: str = ""
    """Empty: the name of the run's folder."""
    mode: Literal["online", "offline"] = "online"
    """offline: files that `wandb sync` sends later."""
    folder: str = "."
    """Where its folder `wandb` lies."""


class MlflowConfig(_ExporterConfig):
    """MLflow."""

    kind: Literal["mlflow"] = "mlflow"
    uri: str = Field(default="file:mlruns", min_length=1)
    """Of the tracking server or store."""
    experiment: str = Field(default="rollwright", min_length=1)
    name: str = ""
    """Empty: the name of the run's folder."""


class TrackioConfig(_ExporterConfig):
    """trackio, on this machine."""

    kind: Literal["trackio"] = "trackio"
    project: str = Field(default="rollwright", min_length=1)
    name: str = ""
    """Empty: the id of the run."""


ExporterConfig = Annotated[TensorBoardConfig | WandbConfig | MlflowConfig | TrackioConfig, Field(discriminator="kind")]
