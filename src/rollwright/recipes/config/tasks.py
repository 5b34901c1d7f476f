"""What is to be solved, and which part of it is held out."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "ArithmeticTasksConfig",
    "GeneratorConfig",
    "JsonlTasksConfig",
    "ProvenanceConfig",
    "ReasoningGymTasksConfig",
    "TasksConfig",
    "WorldTasksConfig",
]


class ArithmeticTasksConfig(StrictConfig):
    """Three slices: the tool is not needed, it is needed, and it returns an error."""

    kind: Literal["arithmetic"] = "arithmetic"
    easy: float = Field(default=0.2, ge=0, le=1_000_000)
    """Share of tasks that the model can do alone."""
    hard: float = Field(default=0.65, ge=0, le=1_000_000)
    """Share of tasks where the tool is needed."""
    error: float = Field(default=0.15, ge=0, le=1_000_000)
    """Share of tasks where the tool answers with an error."""
    num_train: int = Field(default=4000, ge=1, le=10_000_000)
    num_held_out: int = Field(default=400, ge=1, le=10_000_000)


class GeneratorConfig(StrictConfig):
    """One generator of reasoning-gym."""

    name: str
    weight: float = Field(default=1.0, gt=0, le=1_000_000)
    parameters: dict[str, int | float | str | bool | list[int] | list[float] | list[str]] = {}


class ReasoningGymTasksConfig(StrictConfig):
    """Named generators of `reasoning-gym`, seeded; held-out tasks never train."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    generators: tuple[GeneratorConfig, ...] = Field(min_length=1)
    num_train: int = Field(default=4000, ge=1, le=10_000_000)
    num_held_out: int = Field(default=400, ge=1, le=10_000_000)


class ProvenanceConfig(StrictConfig):
    """Where the rows of a file come from, for the manifest: say what you know; "none" is what there is not."""

    license: str = Field(default="unknown", min_length=1)
    """SPDX identifier."""
    acquired_on: str = Field(default="unknown", pattern=r"^(unknown|\d{4}-\d{2}-\d{2})$")
    """The day on which they were taken: 2026-03-01."""
    generator_model: str = Field(default="unknown", min_length=1)
    """The model that wrote them, with its revision; `none` where no model did."""
    dedup_revision: str = Field(default="unknown", min_length=1)
    """Of what grouped near duplicates; `none` where nothing did."""
    contamination_audit_revision: str = Field(default="unknown", min_length=1)
    """Of what compared them with what is held out; `none` where nothing did."""


class JsonlTasksConfig(StrictConfig):
    """Rows with `prompt` or `messages`, `answer` and `info`."""

    kind: Literal["jsonl"] = "jsonl"
    train: str
    """Path of the training rows."""
    held_out: str | None = None
    """Path of the held-out rows; without it a share of the training rows is held out."""
    held_out_share: float = Field(default=0.1, gt=0, lt=1)
    provenance: ProvenanceConfig = ProvenanceConfig()


class WorldTasksConfig(StrictConfig):
    """The tasks that the environment's world brings."""

    kind: Literal["world"] = "world"
    num_train: int = Field(default=4000, ge=1, le=10_000_000)
    """Distinct tasks wanted; a world may have fewer."""
    num_held_out: int = Field(default=400, ge=1, le=10_000_000)


TasksConfig = Annotated[
    ArithmeticTasksConfig | ReasoningGymTasksConfig | JsonlTasksConfig | WorldTasksConfig, Field(discriminator="kind")
]
