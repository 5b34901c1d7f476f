"""A step of tool episodes beside the same step of TRL, by its own tool loop, turn by turn.

    python -m benchmarks.tools_trl [--repetitions 7] [--json FILE]
    python -m benchmarks.tools_trl --check

Up to three turns with a calculator, 8 groups of 8, one update a step, one thread; everything that is held fixed stands
in `plan.toml`. A repetition is a run of a few steps from the same warm start, on the same tasks; each step counts
whole, with rewards, update, and on our side ledger, receipts, store and the publication of the weights. Neither side
saves checkpoints meanwhile. TRL lives in an environment of its own, which `make setup-trl` makes; ROLLWRIGHT_TRL_PYTHON
names another interpreter. `--check` asks whether both sides do the same work.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paired import Clock, Comparison, compare
from benchmarks.report import Report, Row, machine, table, write_report
from benchmarks.tools_trl.check import check
from benchmarks.tools_trl.job import pace_job
from benchmarks.tools_trl.plan import PLAN, peer_python
from benchmarks.tools_trl.prepare import num_parameters_of, prepare_model, prepare_tasks

TARGET = 3.0
OURS, PEER = "rollwright", "trl"


def measure(model: str, repetitions: int, warm_up: int) -> Comparison:
    """Both sides in turns, a run a turn."""
    prepare_model(model)
    for number in range(repetitions + warm_up):
        prepare_tasks(pace_job(model, number))
    sides = {
        OURS: [sys.executable, "-m", "benchmarks.tools_trl.ours", "pace", model],
        PEER: [peer_python(), "-m", "benchmarks.tools_trl.peer", "pace", model],
    }
    return compare(sides, repetitions=repetitions, warm_up=warm_up)


def rows_of(model: str, found: Comparison, target: float | None) -> list[Row]:
    """Wall seconds and processor seconds of a step."""
    steps = PLAN["steps"]["counted"]
    name = f"(d) tool episodes, {num_parameters_of(model) / 1e6:.2f}M"
    rows: list[Row] = []
    told: list[tuple[str, Clock, float | None]] = [("step", "wall_s", target), ("step, processor", "cpu_s", None)]
    for what, clock, due in told:
        ratio = found.ratio(PEER, OURS, clock)
        row = Row(
            what=f"{name}: {what}",
            ours=found.median(OURS, clock) / steps,
            peer=found.median(PEER, clock) / steps,
            ratio=ratio.value,
            low=ratio.low,
            high=ratio.high,
            unit="s",
            target=due,
        )
        rows.append(row)
    return rows


def checked(models: Sequence[str]) -> int:
    """Print what was compared; 1 where something differs."""
    faults: list[str] = []
    for model in models:
        prepare_model(model)
        found = check(model)
        faults += found.faults
        print(
            f"{model}: of {found.episodes} episodes of TRL, rollwright writes {found.prompts_equal} prompts and "
            f"{found.sequences_equal} whole sequences token for token alike, and pays {found.rewards_equal} alike. "
            f"At the start rollwright succeeds in {found.success[0]:.3f}, TRL in {found.success[1]:.3f} "
            f"({found.success_z:+.1f} standard errors), with {found.tokens[0]:.2f} and {found.tokens[1]:.2f} sampled "
            f"tokens an episode ({found.tokens_z:+.1f})."
        )
    print("\n".join(faults) or "no difference beyond chance")
    return 1 if faults else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(PLAN["models"]), default=PLAN["steps"]["models"])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="whether both sides do the same work; measure nothing")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.check:
        sys.exit(checked(asked.models))
    rows: list[Row] = []
    sides: dict[str, object] = {}
    for model in asked.models:
        found = measure(model, asked.repetitions, asked.warm_up)
        rows += rows_of(model, found, TARGET if model == PLAN["steps"]["models"][0] else None)
        sides[model] = found.to_json()
    print("\n".join(table(rows)))
    if asked.json is not None:
        about = {**machine(), "threads": 1, "plan": PLAN, "raw": sides}
        write_report(Report(name="tools_trl", rows=tuple(rows), about=about), asked.json)


if __name__ == "__main__":
    main()
