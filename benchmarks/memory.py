"""What a long run keeps: its memory step by step, and what is alive early and late.

    python benchmarks/memory.py [--steps 1000] [--warm-up 200] [--set KEY=VALUE] [--json FILE]

The default recipe at its smallest, whole: embedded engine in the deterministic mode, environment with tools, verifiers,
recorded, with checkpoints. Resident memory is read as each step is told. Behind the warm-up a line is laid through the
medians of blocks of steps; its slope has Student's interval. What is alive is counted by type at the end of the warm-up
and at the end, after a collection, so that what grows has a name.
"""

import argparse
import gc
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from report import Report, Row, machine, versions, write_report

from rollwright.recipes.resolve import resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport

SMALLEST = (
    "model.hidden_size=32",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.num_kv_heads=2",
    "model.head_size=48",
    "model.intermediate_size=64",
    "rollout.batch_size=8",
    "rollout.group_size=4",
    "rollout.max_turn_tokens=16",
    "rollout.max_episode_tokens=48",
    "engine.num_slots=8",
    "runtime.concurrency=8",
    "runtime.checkpoint_every=200",
    "evaluation.every=1000000",
    "evaluation.tasks=8",
    "evaluation.samples=1",
    "stages.warm_start.steps=30",
    "stages.warm_start.batch_size=16",
)
BLOCKS = 16
ASKED_KIB = 4.0
"""A step, at most."""
_STUDENT_95 = {4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228, 12: 2.179, 14: 2.145}
"""Two-sided, by degrees of freedom."""


def resident_kib() -> float:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


class Watch:
    """Reads the memory of each step of the RL stage, and counts what is alive at two of them."""

    def __init__(self, counted_at: Sequence[int]) -> None:
        self.resident: list[float] = []
        self.alive: list[Counter[str]] = []
        self._counted_at = frozenset(counted_at)

    def step_finished(self, report: StepReport) -> None:
        if report.stage != "rl":
            return
        self.resident.append(resident_kib())
        if report.stage_step in self._counted_at:
            self.alive.append(alive())

    def run_started(self, report: RunStarted) -> None: ...

    def stage_started(self, report: StageStarted) -> None: ...

    def evaluating(self, report: EvaluationProgress) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def warned(self, sentence: str) -> None: ...


def alive() -> Counter[str]:
    """Objects by type: those that the collector tracks, and the arrays that they hold."""
    gc.collect()
    found: Counter[str] = Counter()
    arrays: set[int] = set()
    for one in gc.get_objects():
        kind = type(one)
        found[f"{kind.__module__}.{kind.__qualname__}"] += 1
        arrays.update(id(held) for held in gc.get_referents(one) if isinstance(held, np.ndarray))
    found["numpy.ndarray"] = len(arrays)
    return found


def slope(resident: Sequence[float], warm_up: int) -> tuple[float, float, float]:
    """KiB a step behind the warm-up, with its 95 % interval."""
    kept = np.asarray(resident[warm_up:])
    blocks = [block for block in np.array_split(np.arange(len(kept)), BLOCKS) if len(block)]
    places = np.array([float(np.mean(block)) for block in blocks])
    heights = np.array([float(np.median(kept[block])) for block in blocks])
    centered = places - places.mean()
    found = float(centered @ heights / (centered @ centered))
    left = heights - heights.mean() - found * centered
    degrees = len(blocks) - 2
    error = float(np.sqrt((left @ left) / degrees / (centered @ centered)))
    around = _STUDENT_95.get(degrees, 2.0) * error
    return found, found - around, found + around


def grown(before: Counter[str], after: Counter[str], steps: int) -> list[tuple[str, int, int]]:
    """Types of which there is at least one more for every two steps."""
    rows = [(kind, before[kind], count) for kind, count in after.items() if count - before[kind] >= steps / 2]
    return sorted(rows, key=lambda row: row[1] - row[2])


def measure(options: argparse.Namespace) -> Watch:
    watch = Watch((options.warm_up, options.steps))
    with tempfile.TemporaryDirectory() as folder:
        order = TrainOrder(
            resolved=resolve("arithmetic-tool", (*SMALLEST, f"run.steps={options.steps}", *options.set)),
            run_dir=Path(folder) / "run",
            source=None,
            is_rollouts_only=False,
        )
        train_run(order, watch)
    return watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=200)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the recipe")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    watch = measure(options)
    seconds = time.monotonic() - began
    found, low, high = slope(watch.resident, options.warm_up)
    before, after = watch.alive
    print(f"{options.steps} steps in {seconds:.0f} s; resident {watch.resident[0] / 1024:.1f} MiB at step 1, ", end="")
    print(f"{watch.resident[options.warm_up - 1] / 1024:.1f} MiB at step {options.warm_up}, ", end="")
    print(f"{watch.resident[-1] / 1024:.1f} MiB at the end, {max(watch.resident) / 1024:.1f} MiB at most")
    print(f"slope behind the warm-up: {found:.2f} [{low:.2f}, {high:.2f}] KiB a step, asked at most {ASKED_KIB}")
    print(f"objects alive: {before.total():,} at step {options.warm_up}, {after.total():,} at step {options.steps}")
    for kind, early, late in grown(before, after, options.steps - options.warm_up)[:40]:
        print(f"  {kind}: {early:,} to {late:,}, {(late - early) / (options.steps - options.warm_up):.2f} a step")
    rows = (
        Row(
            what="resident memory a step, over a whole run",
            ours=found,
            peer=None,
            ratio=found,
            low=low,
            high=high,
            unit="KiB/step",
            target=ASKED_KIB,
            target_side="at_most",
        ),
        one("objects alive a step", (after.total() - before.total()) / (options.steps - options.warm_up), "1/step"),
        one("peak of resident memory", max(watch.resident) / 1024, "MiB"),
        *(one(f"alive at the end: {kind}", float(count), "") for kind, count in after.most_common(8)),
    )
    if options.json:
        about = {"machine": machine(), "versions": versions("torch"), "steps": options.steps}
        write_report(Report(name="memory", rows=rows, about=about), options.json)


def one(what: str, ours: float, unit: str) -> Row:
    """A figure of which nothing is asked."""
    return Row(what=what, ours=ours, peer=None, ratio=None, unit=unit)


if __name__ == "__main__":
    main()
