"""rollwright's side: a run by the ordinary wiring, with ledger, receipts and store.

python -m benchmarks.tools_trl.ours pace MODEL         a worker: seconds of steps
python -m benchmarks.tools_trl.ours train JOB.json     one run, with weights written on the way
"""

import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.tools_trl.job import Job, pace_job
from benchmarks.tools_trl.plan import PLAN
from benchmarks.tools_trl.prepare import Silent, recipe_of, run_order
from benchmarks.tools_trl.workers import Span, Stamps, serve_spans
from rollwright.recipes.runs import train_run
from rollwright.runtime.observers import StageStarted, StepReport


class Watch(Silent):
    """Stamps steps when they are durable: commit, and checkpoint where one is due."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps

    def stage_started(self, report: StageStarted) -> None:
        self._stamps.begin()

    def step_finished(self, report: StepReport) -> None:
        successes = (report.success or 0.0) * report.num_episodes
        counts = {"episodes": report.num_episodes, "successes": successes, "tokens": report.num_action_tokens}
        parts = {"collect_s": report.collect_s, "learn_s": report.learn_s, "save_s": report.save_s}
        self._stamps.mark(counts | parts)


def train(job: Job, run: Path) -> Stamps:
    """One run, from the opening of its stage."""
    stamps = Stamps()
    train_run(run_order(recipe_of(job), run), Watch(stamps))
    return stamps


def pace(model: str, number: int) -> Span:
    with tempfile.TemporaryDirectory(prefix="rollwright-bench-") as scratch:
        return train(pace_job(model, number), Path(scratch) / "run").span(PLAN["steps"]["counted"])


def about() -> dict[str, object]:
    return {"rollwright": version("rollwright"), "torch": torch.__version__, "threads": 1}


def main() -> None:
    match sys.argv[1:]:
        case ["pace", model]:
            serve_spans(partial(pace, model), about())
        case ["train", file]:
            job = Job.read(file)
            job.write_result(train(job, Path(job.out) / "run"), about())
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
