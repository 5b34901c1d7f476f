"""What a process of either side is asked to run. The standard library alone, for both interpreters."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.tools_trl.plan import PLAN, model_folder, tasks_file
from benchmarks.tools_trl.workers import Stamps

__all__ = ["Job", "pace_job", "read_tasks"]


@dataclass(frozen=True)
class Job:
    """One run."""

    model: str
    """A warm-started folder."""
    seed: int
    """Of the order of tasks and of what is sampled."""
    learning_rate: float
    steps: int
    save_every: int
    """Weights are written to `out` at multiples of it; 0: never."""
    out: str

    @classmethod
    def read(cls, file: str) -> "Job":
        return cls(**json.loads(Path(file).read_text(encoding="utf-8")))

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def write_result(self, stamps: Stamps, about: Mapping[str, object]) -> None:
        """Leave in `out` when each step ended and what it counted."""
        told = {"wall_s": stamps.wall_s, "cpu_s": stamps.cpu_s, "counts": stamps.counts, "about": dict(about)}
        (Path(self.out) / "result.json").write_text(json.dumps(told), encoding="utf-8")

    def looking(self) -> "Job":
        """Some steps that leave the weights as they are."""
        return replace(self, steps=PLAN["steps"]["looked_at"], learning_rate=1e-12)


def pace_job(model: str, number: int) -> Job:
    """A repetition of workload (d): the steps that count, one before them and one behind."""
    steps = PLAN["steps"]
    return Job(
        model=str(model_folder(model)),
        seed=steps["seed"] + number,
        learning_rate=steps["learning_rate"],
        steps=steps["counted"] + 2,
        save_every=0,
        out="",
    )


def read_tasks(job: Job) -> list[dict[str, Any]]:
    """The tasks of a run in the order in which they are drawn, one for each group."""
    groups = PLAN["episodes"]["batch_size"] // PLAN["episodes"]["group_size"]
    lines = tasks_file(job.seed, groups * job.steps).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
