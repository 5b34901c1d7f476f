"""A step of rollwright beside a step of TRL, turn by turn.

    python -m benchmarks.against_trl [--workloads a b c] [--threads 1] [--repetitions 7] [--json FILE]
    python -m benchmarks.against_trl --device cuda --dtype bfloat16 --model 0.5b

One repetition is a few whole steps, told as their mean: generation, rewards, loss, backward, optimizer. On our side
that is the ordinary run, with its ledger, receipts and store, and with the new weights handed to the engine. TRL lives
in an environment of its own, which `make setup-trl` makes; ROLLWRIGHT_TRL_PYTHON names another interpreter. What both
sides sampled is told beside the times: tokens, and how many completions had which length. A third side is the floor:
the bare matrix products of the same step (`benchmarks/floor.py`).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.against_trl.job import Job
from benchmarks.paired import Comparison, compare
from benchmarks.report import Report, Row, machine, table, write_report
from benchmarks.workloads import MODELS, WORKLOADS, Workload, model_folder

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {"a": 1.5, "b": 5.0, "c": 4.0}


def trl_python() -> Path:
    """The interpreter of TRL's environment.

    Raises:
        FileNotFoundError: with the command that makes it.
    """
    python = Path(os.environ.get("ROLLWRIGHT_TRL_PYTHON", ROOT / ".venv-trl" / "bin" / "python"))
    if not python.is_file():
        raise FileNotFoundError(f"there is no {python}; `make setup-trl` makes the environment that TRL runs in.")
    return python


def commands(job: Job) -> dict[str, Sequence[str]]:
    """What starts each side."""
    return {
        **own_commands(job),
        "trl": [str(trl_python()), "-m", "benchmarks.against_trl.theirs", *job.arguments()],
    }


def own_commands(job: Job) -> dict[str, Sequence[str]]:
    """What starts our side and the floor."""
    return {
        "rollwright": [sys.executable, "-m", "benchmarks.against_trl.ours", *job.arguments()],
        "floor": _floor_command(job),
    }


def _floor_command(job: Job) -> Sequence[str]:
    """What starts the bare matrix products of the same step."""
    given = {
        "--workload": job.workload.name,
        "--model": job.workload.model,
        "--device": job.device,
        "--dtype": job.dtype,
        "--threads": job.threads,
    }
    return [sys.executable, "-m", "benchmarks.floor", *(str(word) for pair in given.items() for word in pair)]


def rows_of(workload: Workload, found: Comparison, *, has_target: bool) -> list[Row]:
    """The step's ratio; the same for each token, and of processor seconds; and what both sides did."""
    step, token = found.ratio("trl", "rollwright"), found.per_count("trl", "rollwright", "tokens")
    processor = found.ratio("trl", "rollwright", "cpu_s")
    name = f"({workload.name}) {workload.title}"
    tokens = {side: found.mean_count(side, "tokens") for side in ("rollwright", "trl")}
    quiet = found.mean_count("rollwright", "quiet_groups")
    return [
        Row(
            what=f"{name}: step",
            ours=found.median("rollwright"),
            peer=found.median("trl"),
            ratio=step.value,
            low=step.low,
            high=step.high,
            unit="s",
            target=TARGETS[workload.name] if has_target else None,
            note=f"quiet groups of rollwright: {quiet:.1%}",
        ),
        Row(
            what=f"{name}: sampled token",
            ours=1e6 * found.median("rollwright") / tokens["rollwright"],
            peer=1e6 * found.median("trl") / tokens["trl"],
            ratio=token.value,
            low=token.low,
            high=token.high,
            unit="µs",
        ),
        Row(
            what=f"{name}: processor seconds of a step",
            ours=found.median("rollwright", "cpu_s"),
            peer=found.median("trl", "cpu_s"),
            ratio=processor.value,
            low=processor.low,
            high=processor.high,
            unit="s",
        ),
        Row(
            what=f"{name}: tokens sampled in a step",
            ours=tokens["rollwright"],
            peer=tokens["trl"],
            ratio=tokens["rollwright"] / tokens["trl"],
            note="the work of both sides",
        ),
        *(over_floor(f"{name}: {side} over the floor", found, side) for side in ("rollwright", "trl")),
    ]


def over_floor(what: str, found: Comparison, side: str) -> Row:
    """A side's step over the bare matrix products of the live tokens."""
    ratio = found.ratio(side, "floor")
    return Row(
        what=what,
        ours=found.median(side),
        peer=found.median("floor"),
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        unit="s",
        target_side="at_most",
    )


def spread_of(lengths: Sequence[int], limit: int) -> str:
    """How many completions of which length, in powers of two."""
    edges = [0, *(2**n for n in range(2, 20) if 2**n < limit), limit]
    counts = [sum(low < length <= high for length in lengths) for low, high in zip(edges, edges[1:], strict=False)]
    return ", ".join(f"to {high}: {count}" for high, count in zip(edges[1:], counts, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=sorted(WORKLOADS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--model", choices=MODELS, help="instead of the workload's own")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows: list[Row] = []
    sides: dict[str, object] = {}
    for name in asked.workloads:
        workload = WORKLOADS[name] if asked.model is None else replace(WORKLOADS[name], model=asked.model)
        job = Job(workload, model_folder(workload.model), asked.device, asked.dtype, asked.threads)
        found = compare(commands(job), repetitions=asked.repetitions, warm_up=asked.warm_up, threads=asked.threads)
        some = rows_of(workload, found, has_target=asked.model is None)
        print("\n".join(table(some)))
        for side, told in found.told.items():
            if "lengths" not in told:
                continue
            print(f"lengths, {side}: {spread_of(told['lengths'], workload.max_tokens)}", flush=True)
        rows += some
        sides[name] = found.to_json()
    if asked.json is not None:
        about = {**machine(), "threads": asked.threads, "device": asked.device, "dtype": asked.dtype, "raw": sides}
        write_report(Report(name="against_trl", rows=tuple(rows), about=about), asked.json)


if __name__ == "__main__":
    main()
