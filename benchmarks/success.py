"""Seconds until a declared success on held-out tasks: rollwright and TRL from the same warm start.

    python -m benchmarks.success [--json FILE] [--record FILE] [--only tuning]

Model, tasks in their order, groups, batch, limits, optimizer, rates, seeds and the rule of the threshold stand in
`benchmarks/tools_trl/plan.toml`, committed before they were run. An arm is one run of one side: a process with one
thread on a core of its own, beside the other side's arm on another core, so that both have the same neighbors. Both
write their weights every few updates, and one evaluator scores all of them afterwards, by the same tasks and seeds; its
seconds count for no side. First three rates on both sides at one seed, scored on tuning tasks; then each side's best at
all seeds, scored on held-out tasks. Each arm becomes one line of the record, and is not run again on the same machine
while plan and commit stand.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import exp, floor, inf, log, sqrt
from pathlib import Path
from typing import Any, Literal

from benchmarks.report import Report, Row, machine, table, write_report
from benchmarks.tools_trl.job import Job
from benchmarks.tools_trl.plan import CACHE, PLAN, ROOT, digest_of, model_folder, peer_python
from benchmarks.tools_trl.prepare import prepare_model, prepare_tasks

Side = Literal["rollwright", "trl"]
SIDES: tuple[Side, ...] = ("rollwright", "trl")
Part = Literal["tuning", "held_out"]
Clock = Literal["wall_s", "cpu_s", "update"]
CLOCKS: Mapping[Clock, str] = {"wall_s": "seconds", "cpu_s": "processor seconds", "update": "updates"}
RECORD = ROOT / "docs" / "proofs" / "time-to-success.jsonl"
TARGET = 3.0
STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}
"""Two-sided, by the number of seeds."""
ARM_S, SCORING_S = 3600, 1800


@dataclass(frozen=True)
class Point:
    """What the weights after an update scored, and when they were written."""

    update: int
    wall_s: float
    cpu_s: float
    success: float
    low: float
    high: float


@dataclass(frozen=True)
class Arm:
    """One run of one side, scored."""

    side: Side
    part: Part
    learning_rate: float
    seed: int
    plan: str
    """Digest of what decides it."""
    commit: str
    points: tuple[Point, ...]
    about: Mapping[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        """Arms are the same where plan, code and machine are."""
        where = [self.about[name] for name in ("processor", "cores", "memory_gib")]
        return (self.side, self.part, self.learning_rate, self.seed, self.plan, self.commit, *where)

    def reached(self, threshold: float, clock: Clock) -> float:
        """Where the line between two scorings first comes to the threshold; inf: nowhere."""
        for before, after in pairwise(self.points):
            if after.success >= threshold:
                share = max(0.0, threshold - before.success) / max(1e-9, after.success - before.success)
                low, high = (float(getattr(point, clock)) for point in (before, after))
                return low + min(1.0, share) * (high - low)
        return inf

    @property
    def mean(self) -> float:
        return statistics.fmean(point.success for point in self.points)

    def line(self) -> str:
        """For the record."""
        figures = {key: value for key, value in asdict(self).items() if key not in ("seed", "about", "commit")}
        told = {
            "commit": self.commit,
            "command": "python -m benchmarks.success",
            "seeds": [self.seed],
            "figures": figures,
            "about": dict(self.about),
        }
        return json.dumps(told)

    @classmethod
    def read(cls, line: str) -> "Arm":
        told = json.loads(line)
        points = tuple(Point(**point) for point in told["figures"].pop("points"))
        return cls(**told["figures"], points=points, seed=told["seeds"][0], commit=told["commit"], about=told["about"])


class Book:
    """The record: arms that stand under this plan, and those that are added."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._arms = {arm.key: arm for arm in map(Arm.read, filter(None, lines))}
        self._commit, self._machine = _commit(), machine()

    def wanted(self, part: Part, rates: Mapping[Side, float], seed: int) -> list[Arm]:
        """Both sides of a pair, here and now."""
        where = self._commit, (), self._machine
        return [Arm(side, part, rates[side], seed, plan_digest(), *where) for side in SIDES]

    def arms(self, wanted: Sequence[Arm]) -> list[Arm]:
        """Of those that are wanted, each as it was run; both sides of a pair are run at once where one is missing."""
        missing = [arm for arm in wanted if arm.key not in self._arms]
        if missing:
            for done in run_together(wanted):
                if done.key not in self._arms:
                    self._arms[done.key] = done
                    with self._file.open("a", encoding="utf-8") as lines:
                        lines.write(done.line() + "\n")
        return [self._arms[arm.key] for arm in wanted]


def plan_digest() -> str:
    """Of all that decides an arm, but for rate and seed."""
    success = {key: PLAN["success"][key] for key in ("model", "steps", "save_every")}
    model = model_folder(success["model"]).name
    return digest_of(success, model, PLAN["episodes"], PLAN["optimizer"], PLAN["scoring"])


def run_together(arms: Sequence[Arm]) -> list[Arm]:
    """Both sides of a pair at once, each on a core of its own; then their weights are scored, also at once.

    The sides change cores with the seed and the rate, so that no core is always of one side.
    """
    plan = PLAN["success"]
    cores = sorted(os.sched_getaffinity(0))[:2]
    if digest_of(arms[0].learning_rate, arms[0].seed)[0] in "01234567":
        cores.reverse()
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="arms-") as scratch:
        running: list[tuple[Arm, Path, subprocess.Popen[bytes]]] = []
        for arm, core in zip(arms, cores * 2, strict=False):
            out = Path(scratch) / arm.side
            out.mkdir()
            model = str(model_folder(plan["model"]))
            job = Job(model, arm.seed, arm.learning_rate, plan["steps"], plan["save_every"], str(out))
            prepare_tasks(job)
            job.write(out / "job.json")
            module = "benchmarks.tools_trl." + ("ours" if arm.side == "rollwright" else "peer")
            python = sys.executable if arm.side == "rollwright" else peer_python()
            running.append((arm, out, _started([python, "-m", module, "train", str(out / "job.json")], out, core)))
        for arm, out, process in running:
            _wait(process, out, f"{arm.side} at {arm.learning_rate:g}, seed {arm.seed}", ARM_S)
        scoring = [
            (arm, out, _started(_scoring_command(arm, out), out, core))
            for (arm, out, _), core in zip(running, cores * 2, strict=False)
        ]
        for arm, out, process in scoring:
            _wait(process, out, f"the scoring of {arm.side}", SCORING_S)
        return [_scored(arm, out) for arm, out, _ in running]


def _started(command: Sequence[str], out: Path, core: int) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with (out / "said.txt").open("ab") as said, (out / "scores.jsonl").open("wb") as scores:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=scores, stderr=said
        )
    os.sched_setaffinity(process.pid, {core})
    return process


def _wait(process: "subprocess.Popen[bytes]", out: Path, what: str, limit_s: float) -> None:
    try:
        code = process.wait(limit_s)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code:
        raise RuntimeError(f"{what} ended with code {code}:\n{(out / 'said.txt').read_text(errors='replace')[-3000:]}")


def _scoring_command(arm: Arm, out: Path) -> list[str]:
    weights = [str(folder) for folder in _weights(out).values()]
    return [sys.executable, "-m", "benchmarks.tools_trl.scoring", arm.part, *weights]


def _weights(out: Path) -> dict[int, Path]:
    """By update, the warm start included, which is update 0."""
    folders = [*out.glob("step-*"), *out.glob("run/checkpoints/step-*")]
    found = {int(folder.name.removeprefix("step-")): folder for folder in folders}
    return {0: model_folder(PLAN["success"]["model"])} | {n: found[n] for n in sorted(found) if n}


def _scored(arm: Arm, out: Path) -> Arm:
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    lines = (out / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    scores = {line["folder"]: line for line in map(json.loads, lines)}
    points = tuple(
        Point(
            update=update,
            wall_s=result["wall_s"][update - 1] if update else 0.0,
            cpu_s=result["cpu_s"][update - 1] if update else 0.0,
            **{key: scores[str(folder)][key] for key in ("success", "low", "high")},
        )
        for update, folder in _weights(out).items()
    )
    return replace(arm, points=points, about=result["about"] | dict(arm.about))


def best_of(arms: Sequence[Arm], threshold: float) -> Arm:
    """By updates, which the machine does not decide; of equals, the one that scores more on average."""

    return min(arms, key=lambda arm: (arm.reached(threshold, "update"), -arm.mean))


@dataclass(frozen=True)
class Interval:
    """Of the geometric mean over seeds, 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def interval_of(values: Sequence[float]) -> Interval | None:
    """Student's, of the logarithms; None where a seed did not come there, or was there from the start."""
    if inf in values or 0 in values or len(values) not in STUDENT_95:
        return None
    logs = [log(value) for value in values]
    mean, half = statistics.fmean(logs), STUDENT_95[len(logs)] * statistics.stdev(logs) / sqrt(len(logs))
    return Interval(exp(mean), exp(mean - half), exp(mean + half))


def row_of(what: str, sides: Mapping[Side, Sequence[float]], unit: str, target: float | None) -> Row:
    """TRL over rollwright, seed by seed, and whether the intervals lie apart."""
    ratios = sorted(t / o for o, t in zip(sides["rollwright"], sides["trl"], strict=True) if 0 < o < inf)
    spans = {side: interval_of(sides[side]) for side in SIDES}
    ours, theirs = spans["rollwright"], spans["trl"]
    if ours is None or theirs is None or len(ratios) < len(sides["trl"]):
        told = ", ".join(f"{side} {[f'{v:.1f}' for v in values]}" for side, values in sides.items())
        return Row(
            what=what,
            ours=None,
            peer=None,
            ratio=None,
            target=target,
            note=f"not every seed came there from below: {told}",
        )
    is_apart = ours.high < theirs.low
    return Row(
        what=what,
        ours=ours.value,
        peer=theirs.value,
        ratio=statistics.median(ratios),
        low=ratios[0],
        high=ratios[-1],
        unit=unit,
        target=target,
        is_held_back=not is_apart,
        note=f"rollwright {ours}, TRL {theirs}: the intervals " + ("lie apart" if is_apart else "overlap"),
    )


def rows_of(arms: Sequence[Arm], threshold: float) -> list[Row]:
    """Wall seconds, processor seconds and updates until the threshold, of the arms of all seeds."""
    rows: list[Row] = []
    for clock, what in CLOCKS.items():
        sides: dict[Side, list[float]] = {side: [] for side in SIDES}
        for arm in sorted(arms, key=lambda one: one.seed):
            sides[arm.side].append(arm.reached(threshold, clock))
        unit, target = ("updates", None) if clock == "update" else ("s", TARGET if clock == "wall_s" else None)
        rows.append(row_of(f"(e) {what} to a held-out success of {threshold:g}", sides, unit, target))
    return rows


def curves(arms: Sequence[Arm]) -> list[str]:
    """A Markdown table: success by update, with the seconds at which its weights were written."""
    lines = [f"| update | {' | '.join(f'{a.side} {a.learning_rate:g}, seed {a.seed}' for a in arms)} |"]
    lines.append("|---|" + "---|" * len(arms))
    for at in range(len(arms[0].points)):
        cells = [f"{arm.points[at].success:.3f} at {arm.points[at].wall_s:.0f} s" for arm in arms]
        lines.append(f"| {arms[0].points[at].update} | {' | '.join(cells)} |")
    return lines


def threshold_of(arms: Sequence[Arm], *, held: int, margin: float) -> float:
    """The highest multiple of 0.05 that lies `margin` below what an arm held at so many scorings in a row."""
    scores = [[point.success for point in arm.points] for arm in arms]
    best = max(min(some[at : at + held]) for some in scores for at in range(len(some) - held + 1))
    return floor((best - margin) * 20 + 1e-9) / 20


@dataclass(frozen=True)
class Tuned:
    """What the tuning tasks decided."""

    threshold: float
    rates: Mapping[Side, float]


def tune(book: Book) -> Tuned:
    """Every rate on both sides: the threshold by TRL's arms, and the best rate of each side."""
    plan = PLAN["success"]
    found: list[Arm] = []
    for rate in plan["learning_rates"]:
        rates: dict[Side, float] = {side: rate for side in SIDES}
        found += book.arms(book.wanted("tuning", rates, plan["tuning_seed"]))
        print(f"tuned at {rate:g}", file=sys.stderr, flush=True)
    print("\nTuning tasks:\n\n" + "\n".join(curves(sorted(found, key=lambda arm: arm.side))) + "\n", flush=True)
    of_side = {side: [arm for arm in found if arm.side == side] for side in SIDES}
    threshold = threshold_of(of_side["trl"], held=plan["held"], margin=plan["margin"])
    best: dict[Side, float] = {side: best_of(of_side[side], threshold).learning_rate for side in SIDES}
    return Tuned(threshold, best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--only", choices=("tuning",), help="stop before the seeds")
    asked = parser.parse_args()
    plan = PLAN["success"]
    prepare_model(plan["model"])
    peer_python()
    book = Book(asked.record)
    tuned = tune(book)
    print(f"by the tuning tasks: threshold {tuned.threshold:g}, rates {dict(tuned.rates)}", flush=True)
    if asked.only:
        return
    arms = [arm for seed in plan["seeds"] for arm in book.arms(book.wanted("held_out", tuned.rates, seed))]
    rows = rows_of(arms, tuned.threshold)
    print("\nHeld-out tasks:\n\n" + "\n".join(curves(sorted(arms, key=lambda arm: arm.side))) + "\n")
    print("\n".join(table(rows)))
    for row in rows:
        print(f"{row.what}: {row.note}")
    if asked.json is not None:
        about = {**machine(), "threads": 1, "plan": PLAN, "tuned": asdict(tuned), "arms": [asdict(arm) for arm in arms]}
        write_report(Report(name="success", rows=tuple(rows), about=about), asked.json)


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    done = subprocess.run([git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
