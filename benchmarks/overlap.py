"""How much sooner the same number of updates is made where sampling and learning overlap, on a long tail of tools.

    python benchmarks/overlap.py --updates 20
    python benchmarks/overlap.py --quality --runs runs/overlap --record docs/proofs/overlap.jsonl

Each arm trains the default recipe behind slow tools (`benchmarks/long_tail.py`) in a process of its own, one after the
other, round by round; what is compared is the wall time of the RL steps, evaluations left out. The delays are seconds
of waiting, not of work, as those of a tool on another machine.

`--quality` asks whether the time is bought with success: two arms, three seeds, the recipe's own number of updates, and
400 held-out tasks at the end of each, paired by task. The arms differ in lag and swap alone: engine, objective and its
correction of staleness are the same. What `--runs` holds already is read and not run again.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rollwright.recipes.build.machine import code_commit
from rollwright.recipes.ladder.commands import open_commands
from rollwright.recipes.ladder.lag.arms import Arm, complete
from rollwright.recipes.ladder.lag.figures import ArmFigures, figures_of
from rollwright.recipes.ladder.lag.level import FinalProtocol
from rollwright.recipes.resolve import resolve
from rollwright.statistics import clustered_interval, nested_bootstrap_interval

ROOT = Path(__file__).parents[1]
RECIPE = "arithmetic-tool"
ARMS = {
    "lag 0": ("runtime.max_lag=0",),
    "lag 2": ("runtime.max_lag=2",),
    "lag 2, in flight": ("runtime.max_lag=2", "runtime.swap=continue", "engine.mode=fast"),
}
SLOW = (
    "environment.kind=world",
    "environment.name=benchmarks.long_tail:load",
    "tasks.kind=world",
    'verifier.parts=[{kind="world"}]',
)

# All of the comparison of quality, fixed before its first run.
QUALITY_ARMS = {
    "lag 0": ("runtime.max_lag=0",),
    "lag 2, in flight": ("runtime.max_lag=2", "runtime.swap=continue"),
}
QUALITY = (
    *SLOW,
    "engine.mode=fast",
    # The recipe's clip looks at current over proximal, both the learner's, and corrects no staleness. Each token also
    # weighs proximal over behavior, cut at 2 (M44, M39), as in level 5 of the ladder; at lag 0 that is 1.
    'objective.correction={kind="truncated", cap=2.0, level="token"}',
    "tasks.num_held_out=400",
    "evaluation.every=1000",
    "evaluation.tasks=100",
    "evaluation.samples=1",
)
SEEDS = (0, 1, 2)
FINAL = FinalProtocol(tasks=400, samples=2)
LOWEST_DIFFERENCE = -0.05
"""That the lower bound of the difference in held-out success must not fall below."""
LEAST_RATIO = 1.6
"""Of the seconds of the RL steps, lag 0 over in flight, summed over the seeds."""


def seconds_of(arm: str, seed: int, updates: int, folder: Path) -> tuple[float, dict[str, float]]:
    settings = (
        *ARMS[arm],
        *SLOW,
        "stages.warm_start.steps=20",  # Demonstrations are not compared.
        "stages.warm_start.warmup_updates=0",
        "learner.warmup_updates=0",
        f"run.steps={updates}",
        "evaluation.tasks=8",
        "evaluation.samples=1",
        "evaluation.every=1000",
    )
    command = [sys.executable, "-m", "rollwright", "train", RECIPE, "--json", "--seed", str(seed)]
    command += ["--run-dir", str(folder / f"{arm}-{seed}"), *(w for s in settings for w in ("--set", s))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stdout[-2000:] + ended.stderr[-2000:])
    steps = [line for line in map(json.loads, ended.stdout.splitlines()) if line.get("event") == "step"]
    rl = [line for line in steps if line["stage"] == "rl"]
    shares = {key: sum((line[key] for line in rl), 0.0) for key in ("collect_s", "learn_s", "save_s")}
    return sum((line["seconds"] for line in rl), 0.0), shares


def compare_time(arms: Sequence[str], rounds: int, updates: int) -> None:
    taken: dict[str, list[float]] = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(rounds):
            for arm in arms:
                seconds, shares = seconds_of(arm, seed, updates, Path(folder))
                taken[arm].append(seconds)
                print(f"{arm}: {seconds:.1f} s for {updates} updates; {shares}", flush=True)
    slow = statistics.median(taken[arms[0]])
    for arm in arms[1:]:
        print(f"{arm}: {slow / statistics.median(taken[arm]):.2f} times as fast as {arms[0]}")


def quality_arm(name: str, seed: int, folder: Path, settings: Sequence[str]) -> Arm:
    chosen = (*QUALITY, *QUALITY_ARMS[name], *settings, f"run.seed={seed}")
    resolved = resolve(RECIPE, chosen)
    lag = resolved.recipe.runtime.max_lag
    path = folder / f"lag{lag}-{resolved.recipe.runtime.swap}-seed{seed}"
    return Arm(name=f"{name}, seed {seed}", value=lag, path=path, recipe=RECIPE, settings=chosen, resolved=resolved)


def compare_quality(folder: Path, record: Path | None, settings: Sequence[str], final: FinalProtocol) -> bool:
    """Train, measure and judge; True where both limits hold."""
    found: dict[str, dict[int, ArmFigures]] = {name: {} for name in QUALITY_ARMS}
    with open_commands() as commands:
        for seed in SEEDS:
            for name in QUALITY_ARMS:
                arm = quality_arm(name, seed, folder, settings)
                complete(arm, final, commands, lambda sentence: print(sentence, flush=True))
                found[name][seed] = figures_of(arm, final)
                figures = found[name][seed]
                say(figures.commit, [seed], {"arm": name, **shown(figures)}, record)
    conclusion = concluded(found["lag 0"], found["lag 2, in flight"])
    say(code_commit(), SEEDS, conclusion, record)
    return conclusion["quality_holds"] and conclusion["time_holds"]


def shown(figures: ArmFigures) -> dict[str, Any]:
    keys = ("threads", "updates", "steps_s", "tokens_per_s", "resumed", "final", "staleness")
    every = asdict(figures)
    return {"before": every["curve"][0]["success"], **{key: every[key] for key in keys}}


def concluded(before: Mapping[int, ArmFigures], after: Mapping[int, ArmFigures]) -> dict[str, Any]:
    """The difference clustered by task, the same with seeds drawn as well, and the ratio of seconds."""
    of_seeds: list[np.ndarray] = []
    of_tasks: dict[str, list[float]] = defaultdict(list)
    for seed, baseline in before.items():
        scored = after[seed].by_task
        assert scored.keys() == baseline.by_task.keys(), f"the arms of seed {seed} were scored on different tasks"
        deltas = {task: scored[task] - baseline.by_task[task] for task in sorted(scored)}
        of_seeds.append(np.array(list(deltas.values())))
        for task, delta in deltas.items():
            of_tasks[task].append(delta)
    means = np.array([np.mean(deltas) for deltas in of_tasks.values()], dtype=np.float64)
    clustered, nested = clustered_interval(means), nested_bootstrap_interval(of_seeds, seed=0, resamples=10_000)
    assert clustered is not None and nested is not None
    ratios = [before[seed].steps_s / after[seed].steps_s for seed in before]
    ratio = sum(b.steps_s for b in before.values()) / sum(a.steps_s for a in after.values())
    return {
        "difference": float(means.mean()),
        "num_tasks": len(means),
        "by_task": asdict(clustered),
        "by_task_and_seed": asdict(nested),
        "difference_by_seed": [float(deltas.mean()) for deltas in of_seeds],
        "lowest_asked": LOWEST_DIFFERENCE,
        "quality_holds": min(clustered.low, nested.low) >= LOWEST_DIFFERENCE,
        "time_ratio": ratio,
        "time_ratio_by_seed": ratios,
        "least_asked": LEAST_RATIO,
        "time_holds": ratio >= LEAST_RATIO,
        "commits": sorted({arm.commit for arms in (before, after) for arm in arms.values()}),
    }


def say(commit: str, seeds: Sequence[int], figures: Mapping[str, Any], record: Path | None) -> None:
    """Print a line, and add it to the file unless it stands there."""
    command = "python benchmarks/overlap.py --quality"
    text = json.dumps({"commit": commit, "command": command, "seeds": list(seeds), "figures": figures})
    print(text, flush=True)
    if record is None or (record.exists() and text in record.read_text(encoding="utf-8").splitlines()):
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=20, help="of the comparison of times")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison of times")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--quality", action="store_true", help="compare held-out success and times")
    parser.add_argument("--runs", type=Path, default=Path("runs/overlap"), help="of --quality: folder of its runs")
    parser.add_argument("--record", type=Path, help="of --quality: a file to add JSON lines to")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of --quality: for a trial")
    parser.add_argument("--tasks", type=int, default=FINAL.tasks, help="of --quality: for a trial")
    asked = parser.parse_args()
    if not asked.quality:
        compare_time(asked.arms, asked.rounds, asked.updates)
        return
    runs, record = asked.runs.resolve(), None if asked.record is None else asked.record.resolve()
    os.chdir(ROOT)  # The world is named by `benchmarks.long_tail:load`.
    final = FinalProtocol(tasks=asked.tasks, samples=FINAL.samples)
    sys.exit(0 if compare_quality(runs, record, asked.set, final) else 1)


if __name__ == "__main__":
    main()
