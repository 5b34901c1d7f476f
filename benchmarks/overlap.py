"""How much sooner the same number of updates is made where sampling and learning overlap, on a long tail of tools.

    python benchmarks/overlap.py --updates 20

Each arm trains the default recipe behind slow tools (`benchmarks/long_tail.py`) in a process of its own, one after the
other, round by round; what is compared is the wall time of the RL steps, evaluations left out. The delays are seconds
of waiting, not of work, as those of a tool on another machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ARMS = {
    "lag 0": ("runtime.max_lag=0",),
    "lag 2": ("runtime.max_lag=2",),
    "lag 2, in flight": ("runtime.max_lag=2", "runtime.swap=continue", "engine.mode=fast"),
}


def seconds_of(arm: str, seed: int, updates: int, folder: Path) -> tuple[float, dict[str, float]]:
    settings = (
        *ARMS[arm],
        "environment.kind=world",
        "environment.name=benchmarks.long_tail:load",
        "tasks.kind=world",
        'verifier.parts=[{kind="world"}]',
        "stages.warm_start.steps=20",  # Demonstrations wait for the slow tools as well, and are not compared.
        "stages.warm_start.warmup_updates=0",
        "learner.warmup_updates=0",
        f"run.steps={updates}",
        "evaluation.tasks=8",
        "evaluation.samples=1",
        "evaluation.every=1000",
    )
    command = [sys.executable, "-m", "rollwright", "train", "arithmetic-tool", "--json", "--seed", str(seed)]
    command += ["--run-dir", str(folder / f"{arm}-{seed}"), *(w for s in settings for w in ("--set", s))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stdout[-2000:] + ended.stderr[-2000:])
    steps = [line for line in map(json.loads, ended.stdout.splitlines()) if line.get("event") == "step"]
    rl = [line for line in steps if line["stage"] == "rl"]
    shares = {key: sum(line[key] for line in rl) for key in ("collect_s", "learn_s", "save_s")}
    return sum(line["seconds"] for line in rl), shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    asked = parser.parse_args()
    taken: dict[str, list[float]] = {arm: [] for arm in asked.arms}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.rounds):
            for arm in asked.arms:
                seconds, shares = seconds_of(arm, seed, asked.updates, Path(folder))
                taken[arm].append(seconds)
                print(f"{arm}: {seconds:.1f} s for {asked.updates} updates; {shares}", flush=True)
    slow = statistics.median(taken[asked.arms[0]])
    for arm in asked.arms[1:]:
        print(f"{arm}: {slow / statistics.median(taken[arm]):.2f} times as fast as {asked.arms[0]}")


if __name__ == "__main__":
    main()
