"""What a worker of either side is asked to do. The standard library alone, for TRL's interpreter reads it too."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.workloads import WORKLOADS, Workload

__all__ = ["Job", "read_job"]

CLIP_LOW, CLIP_HIGH = 0.2, 0.28
BETAS = (0.9, 0.95)


@dataclass(frozen=True)
class Job:
    """A workload on a device."""

    workload: Workload
    model: Path
    device: Literal["cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]
    threads: int

    def arguments(self) -> list[str]:
        given = {
            "--workload": self.workload.name,
            "--folder": self.model,
            "--device": self.device,
            "--dtype": self.dtype,
            "--threads": self.threads,
            "--counted": self.workload.counted,
        }
        return [str(word) for pair in given.items() for word in pair]


def read_job() -> Job:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--counted", type=int, help="steps of a repetition, where not the workload's own")
    asked = parser.parse_args()
    workload = WORKLOADS[asked.workload]
    if asked.counted is not None:
        workload = replace(workload, counted=asked.counted)
    return Job(workload, asked.folder.resolve(), asked.device, asked.dtype, asked.threads)
