"""For how long a checkpoint a step holds up training, as a share of a step.

    python benchmarks/checkpoints.py [--steps 20] [--taught 20] [--rounds 3] [--set KEY=VALUE ...] [--json FILE]

The default recipe is trained with a checkpoint a step, with one every second step, and with none between the first step
and the last, each in a process of its own, in turns. Told of the RL steps between:

- for how long the loop was held by what is saved (the copy of the learner's state, and the wait for the write of the
  step before), as a share of the same run's steps;
- how much longer a step takes while a checkpoint is written, which has in it what the write takes from other threads:
  between the first and the last arm, and, on a busy machine with less noise, between the steps of the second.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from report import Report, Row, machine, versions, write_report

ROOT = Path(__file__).parents[1]
Arm = Literal["every step", "every second", "none between"]
EVERY: dict[Arm, int] = {"every step": 1, "every second": 2, "none between": 10_000}
ASKED = 0.05
"""The largest share of a step that a checkpoint may take."""


@dataclass(frozen=True)
class Steps:
    """Seconds of the steps of a run, and for how long saving held each of them; in order."""

    took: Sequence[float]
    held: Sequence[float]

    @property
    def held_share(self) -> float:
        return sum(self.held) / sum(self.took)


def measure(arm: Arm, options: argparse.Namespace, folder: Path) -> Steps:
    """One run; its third RL step is the first that is told, and behind it the first write is told of."""
    settings: Sequence[str] = (
        f"runtime.checkpoint_every={EVERY[arm]}",
        f"stages.warm_start.steps={options.taught}",
        "stages.warm_start.warmup_updates=0",
        "learner.warmup_updates=0",
        f"run.steps={options.steps}",
        "evaluation.tasks=8",
        "evaluation.samples=1",
        "evaluation.every=10000",
        *options.set,
    )
    command = [sys.executable, "-m", "rollwright", "train", "arithmetic-tool", "--json", "--run-dir", str(folder)]
    command += [word for setting in settings for word in ("--set", setting)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stdout[-2000:] + ended.stderr[-2000:])
    steps = [line for line in map(json.loads, ended.stdout.splitlines()) if line.get("event") == "step"]
    # A step tells for how long the one before held it. The first two begin the stage, the last one is evaluated.
    told = [step for step in steps if step["stage"] == "rl"][2:-1]
    return Steps(took=[step["seconds"] for step in told], held=[step["save_s"] for step in told])


def compared(runs: Mapping[Arm, Sequence[Steps]]) -> tuple[float, float]:
    """How much longer steps take: from arm to arm, and from step to step of the second."""
    medians = {arm: statistics.median(took for run in runs[arm] for took in run.took) for arm in runs}
    # Checkpoints stand behind even steps, so odd ones, which come first, are sampled while they are written.
    written = [statistics.median(run.took[::2]) / statistics.median(run.took[1::2]) - 1 for run in runs["every second"]]
    return medians["every step"] / medians["none between"] - 1, statistics.median(written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--taught", type=int, default=20, help="steps of the warm start before")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe, for all arms")
    parser.add_argument("--json", type=Path, help="write what was found there")
    options = parser.parse_args()
    runs: dict[Arm, list[Steps]] = {arm: [] for arm in EVERY}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for arm in EVERY if number % 2 == 0 else reversed(EVERY):
                steps = measure(arm, options, Path(folder) / f"{number}-{EVERY[arm]}")
                runs[arm].append(steps)
                took, held = 1e3 * statistics.median(steps.took), 1e3 * statistics.mean(steps.held)
                print(f"{arm:12} {took:7.1f} ms a step, held {held:6.1f} ms ({steps.held_share:.1%})", flush=True)
    held = statistics.median(run.held_share for run in runs["every step"])
    between_arms, between_steps = compared(runs)
    print(f"a checkpoint a step holds the loop for {held:.1%} of a step; asked is {ASKED:.0%} at most")
    print(f"a step takes {between_arms:+.1%} beside the arm without, {between_steps:+.1%} from step to step")
    if options.json:
        shares = [run.held_share for run in runs["every step"]]
        row = Row(
            what="a checkpoint a step holds the loop, share of a step",
            ours=held,
            peer=None,
            ratio=held,
            low=min(shares),
            high=max(shares),
            target=ASKED,
            target_side="at_most",
            note=f"a step takes {between_arms:+.1%} beside the arm without, {between_steps:+.1%} from step to step",
        )
        about = {
            **machine(),
            **versions("rollwright", "torch"),
            "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
            "recipe": "arithmetic-tool",
            "settings": options.set,
            "steps": options.steps,
            "rounds": options.rounds,
        }
        write_report(Report(name="checkpoints", rows=(row,), about=about), options.json)


if __name__ == "__main__":
    main()
