"""What the record of a run costs it: receipts, ledger and store, as shares of its time and of its processor time.

    python -m benchmarks.recording [--steps 40] [--taught 150] [--rounds 3] [--warm-up 3] [--set KEY=VALUE]
        [--work tools single-turn] [--json FILE]

Trained are the default recipe (128 episodes with tools) and workload (a) of `workloads.py` (64 completions of one
turn), a process a round. Told are their RL steps, where nothing is evaluated and no checkpoint is written, each from
the moment at which it is handed to the store to that of the next one:

- timed: what receipts, ledger and store (encode, compress, write, sync) take of the processor, on whichever thread; and
  for how long they held the loop, which makes receipts and ledger on its way and waits for the store's step before.
  What reading the clocks takes is taken off again: the ledger is called for each slot and state;
- compared: every second of these steps is left out of the store, and the others are held against those. This has in it
  what the store takes from other threads and caches, and not what receipts and ledger take.

The floor: the tables of the same steps, written once more behind the run by pyarrow alone, with the compression and
encodings that a run folder has, into memory. Nothing is encoded for it, and nothing is put on disk.

Shares are of the same run: both sides of them are slower where the machine is busy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from unittest.mock import patch

import pyarrow as pa

from benchmarks.against_trl.job import Job
from benchmarks.against_trl.ours import recipe_of
from benchmarks.report import Report, Row, machine, versions, write_report
from benchmarks.workloads import WORKLOADS, model_folder
from rollwright.evidence import Commit, CommitRows, RunFolder, run_folder
from rollwright.evidence.drafting import draft_tables
from rollwright.evidence.shards import parquet_bytes
from rollwright.recipes.resolve import Resolved, resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.record.tables import table_named
from rollwright.runtime import learning
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport

Given = ParamSpec("Given")
Made = TypeVar("Made")
ROOT = Path(__file__).parents[1]
ON_THE_WAY = ("receipts", "ledger")
WORKS = {"tools": "128 short episodes with tools", "single-turn": "64 completions of one turn"}
ASKED = 0.02
"""The largest share that all of it may take."""


@dataclass
class Spent:
    """Seconds of the processor and by the clock, by part, while they are counted."""

    processor: dict[str, float] = field(default_factory=dict[str, float])
    clock: dict[str, float] = field(default_factory=dict[str, float])
    reading: tuple[float, float] = (0.0, 0.0)
    """What a call that does nothing is told to take, of the processor and by the clock."""
    is_counting: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def calibrate(self, calls: int = 5000) -> None:
        """Find out what reading the clocks takes."""
        self.is_counting = True
        nothing = self.timed("nothing", lambda: None)
        for _ in range(calls):
            nothing()
        self.reading = (self.processor.pop("nothing") / calls, self.clock.pop("nothing") / calls)
        self.is_counting = False

    def timed(self, part: str, call: Callable[Given, Made]) -> Callable[Given, Made]:
        """The call, with what its thread takes for it."""

        def measured(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            began, spent = time.perf_counter(), time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self._add(part, time.thread_time() - spent, time.perf_counter() - began)

        return measured

    def _add(self, part: str, processor_s: float, clock_s: float) -> None:
        if self.is_counting:
            with self.lock:
                self.processor[part] = self.processor.get(part, 0.0) + processor_s - self.reading[0]
                self.clock[part] = self.clock.get(part, 0.0) + clock_s - self.reading[1]


@dataclass
class Steps:
    """Seconds of the processor and by the clock of each step that is told."""

    processor: list[float] = field(default_factory=list[float])
    clock: list[float] = field(default_factory=list[float])


def write_bare(tables: Mapping[str, pa.Table]) -> None:
    """The Parquet files of a step's tables, and nothing else."""
    for name, rows in tables.items():
        if rows.num_rows:
            parquet_bytes(table_named(name), rows)


class Watch:
    """Keeps the time between steps that are handed to the store, apart for those that it leaves out."""

    def __init__(self, spent: Spent, told: range) -> None:
        self.spent = spent
        self.told = told
        self.stored, self.left_out = Steps(), Steps()
        self.held: list[float] = []
        self._before = (0.0, 0.0)

    def is_left_out(self, step: int) -> bool:
        return step in self.told and step % 2 == 1

    def handed_over(self, step: int) -> None:
        now = time.process_time(), time.perf_counter()
        if step - 1 in self.told:
            steps = self.left_out if self.is_left_out(step - 1) else self.stored
            steps.processor.append(now[0] - self._before[0])
            steps.clock.append(now[1] - self._before[1])
        self._before = now
        self.spent.is_counting = step in self.told

    def step_finished(self, report: StepReport) -> None:
        # A step tells for how long the one before it held the loop.
        if report.step - 1 in self.told and not self.is_left_out(report.step - 1):
            self.held.append(report.save_s)

    def run_started(self, report: RunStarted) -> None: ...

    def stage_started(self, report: StageStarted) -> None: ...

    def evaluating(self, report: EvaluationProgress) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def warned(self, sentence: str) -> None: ...


def tools_recipe(options: argparse.Namespace) -> Resolved:
    """The default recipe, taught before; nothing is evaluated or saved in its steps."""
    settings = (
        f"stages.warm_start.steps={options.taught}",
        f"run.steps={options.steps}",
        "runtime.checkpoint_every=10000",
        "evaluation.every=10000",
        "evaluation.tasks=8",
        "evaluation.samples=1",
        *options.set,
    )
    return resolve("arithmetic-tool", settings)


def single_turn_recipe(options: argparse.Namespace, folder: Path) -> Resolved:
    """Workload (a) as it is measured against TRL."""
    workload = replace(WORKLOADS["a"], counted=options.steps - 2)
    job = Job(workload, model_folder(workload.model), device="cpu", dtype="float32", threads=1)
    return recipe_of(job, folder, 0)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """One run, in this process."""
    spent = Spent()
    spent.calibrate()
    watch = Watch(spent, range(options.taught + options.warm_up, options.taught + options.steps - 1))
    newest: list[Commit] = []
    drafted: list[Mapping[str, pa.Table]] = []

    def committed(self: RunFolder, rows: CommitRows, *, at: datetime) -> Commit:
        watch.handed_over(rows.step)
        if not watch.is_left_out(rows.step):
            newest[:] = [stored(self, rows, at=at)]
        return newest[0]

    def drafting(*of_step: Any) -> tuple[Mapping[str, pa.Table], Mapping[str, bytes]]:
        tables, blobs = draft_tables(*of_step)
        if spent.is_counting:
            drafted.append(tables)
        return tables, blobs

    stored = spent.timed("store", RunFolder.commit)
    [work] = options.work
    # Workload (a) keeps its tasks beside the run.
    folder.mkdir(parents=True)
    resolved = tools_recipe(options) if work == "tools" else single_turn_recipe(options, folder)
    order = TrainOrder(resolved=resolved, run_dir=folder / "run", source=None, is_rollouts_only=False)
    with ExitStack() as stack:
        for target, name, replacement in (
            (RunFolder, "commit", committed),
            (run_folder, "draft_tables", drafting),
            (learning, "receipts_of", spent.timed("receipts", learning.receipts_of)),
            (Ledger, "enter", spent.timed("ledger", Ledger.enter)),
            (Ledger, "balance", spent.timed("ledger", Ledger.balance)),
            (Ledger, "take_rows", spent.timed("ledger", Ledger.take_rows)),
        ):
            stack.enter_context(patch.object(target, name, replacement))
        train_run(order, watch)
    spent.is_counting = False
    bare = Spent(is_counting=True)
    for tables in drafted:
        bare.timed("Parquet", write_bare)(tables)
    num_told = {part: len(watch.told) for part in ON_THE_WAY} | {"store": len(watch.stored.clock)}
    return {
        "stored": asdict(watch.stored),
        "left_out": asdict(watch.left_out),
        "held_s": statistics.mean(watch.held),
        "parts_s": {part: seconds / num_told[part] for part, seconds in spent.processor.items()},
        "bare_s": bare.processor["Parquet"] / len(drafted),
        "on_the_way_s": sum(spent.clock.get(part, 0.0) / num_told[part] for part in ON_THE_WAY),
    }


@dataclass
class Shares:
    """One entry a round."""

    timed: list[float] = field(default_factory=list[float])
    compared: list[float] = field(default_factory=list[float])
    bare: list[float] = field(default_factory=list[float])
    """The floor, of the processor."""


def run_round(options: argparse.Namespace, work: str, folder: Path, processor: Shares, clock: Shares) -> None:
    """One run in a process of its own; prints its lines."""
    taught = options.taught if work == "tools" else 0
    sizes = [f"--steps={options.steps}", f"--taught={taught}", f"--warm-up={options.warm_up}", f"--work={work}"]
    sizes += [f"--set={setting}" for setting in options.set]
    command = [sys.executable, "-m", "benchmarks.recording", "--here", str(folder), *sizes]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(ended.stdout.splitlines()[-1])
    stored, left_out = Steps(**found["stored"]), Steps(**found["left_out"])
    parts: dict[str, float] = found["parts_s"]
    held_s = found["held_s"] + found["on_the_way_s"]
    processor_s, clock_s = statistics.mean(stored.processor), statistics.mean(stored.clock)
    processor.timed.append(sum(parts.values()) / processor_s)
    clock.timed.append(held_s / clock_s)
    processor.bare.append(found["bare_s"] / processor_s)
    processor.compared.append(1 - statistics.median(left_out.processor) / statistics.median(stored.processor))
    clock.compared.append(1 - statistics.median(left_out.clock) / statistics.median(stored.clock))
    of_parts = ", ".join(f"{part} {1e3 * seconds:.1f} ms" for part, seconds in sorted(parts.items()))
    print(
        f"{work}, a step: {1e3 * processor_s:.0f} ms of the processor, of which {of_parts} "
        f"(bare Parquet {1e3 * found['bare_s']:.1f} ms); "
        f"{1e3 * clock_s:.0f} ms by the clock, of which the loop was held {1e3 * held_s:.1f} ms",
        flush=True,
    )


def rows_of(options: argparse.Namespace, work: str) -> list[Row]:
    """What a workload was found to cost; prints it."""
    processor, clock = Shares(), Shares()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            run_round(options, work, Path(folder) / str(number), processor, clock)
    for what, shares in (("processor", processor), ("clock", clock)):
        timed, compared = statistics.median(shares.timed), statistics.median(shares.compared)
        print(f"{work}, {what}: timed {timed:.1%}, store compared {compared:+.1%}; asked is {ASKED:.0%} at most")
    print(f"{work}, processor: bare Parquet of the same tables {statistics.median(processor.bare):.1%}")
    return [_row(work, "of CPU seconds", processor), _row(work, "of wall time", clock), _floor(work, processor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--taught", type=int, default=150, help="steps of the warm start before, of the default recipe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=3, help="RL steps that are not told")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the default recipe")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options, options.here)))
        return
    rows = [row for work in options.work for row in rows_of(options, work)]
    if options.json:
        about = {
            **machine(),
            **versions("rollwright", "torch", "pyarrow"),
            "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
            "settings": options.set,
            "steps": options.steps,
            "rounds": options.rounds,
        }
        write_report(Report(name="recording", rows=tuple(rows), about=about), options.json)


def _row(work: str, of: str, shares: Shares) -> Row:
    timed = statistics.median(shares.timed)
    return Row(
        what=f"{WORKS[work]}: receipts, ledger and store, share {of} of a step",
        ours=timed,
        peer=None,
        ratio=timed,
        low=min(shares.timed),
        high=max(shares.timed),
        target=ASKED,
        target_side="at_most",
        note=f"steps with the store against steps without it: {statistics.median(shares.compared):+.1%}",
    )


def _floor(work: str, processor: Shares) -> Row:
    bare = statistics.median(processor.bare)
    above = statistics.median(timed / floor for timed, floor in zip(processor.timed, processor.bare, strict=True))
    return Row(
        what=f"{WORKS[work]}: the same tables written by pyarrow alone, share of CPU seconds of a step",
        ours=bare,
        peer=None,
        ratio=bare,
        low=min(processor.bare),
        high=max(processor.bare),
        target_side="at_most",
        note=f"the floor of the record, in the same run: receipts, ledger and store take {above:.1f} times as much",
    )


if __name__ == "__main__":
    main()
