"""All that only a machine with an accelerator can tell, in one go of minutes.

    python -m benchmarks.on_gpu [--device cuda] [--dtype bfloat16] [--limit-s 570] [--json FILE]
    python -m benchmarks.on_gpu --device cpu --small

- agreement: log-probabilities of tokens that the engine drew, by engine and learner, in float32 and in bfloat16.
- attention: the learner's attention over a shared prompt, and its gradients, against dense ones; in both types.
- gradient: the whole learner's gradient against that of `transformers`, row by row.
- rates: tokens a second of engine and learner, what a publication costs, and memory.
- steps-a, -b, -c: whole steps beside TRL (`benchmarks/against_trl`) with the same model, where TRL's environment is
  here, else alone. TRL runs without vLLM.

Each part is a process of its own with a limit of its own, within that of the go: what fails, or does not end, is a row
with the reason, and the others go on. The model has the shape of Qwen2.5-0.5B and random weights. `--small` takes the
tiny model and one turn instead, so that the same goes through on a CPU.
"""

import argparse
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import Report, Row, failed, machine, table, versions, write_report
from benchmarks.suite import Script, run_script

ROOT = Path(__file__).resolve().parents[2]
TURNS = {"a": (2, 1), "b": (2, 1), "c": (1, 0)}
"""Repetitions and warm-up of each workload, of two steps that do not count and one that does: minutes in all."""
OWN = ("agreement", "attention", "gradient", "rates")
STEPS = ("steps-b", "steps-a", "steps-c")
LIMITS_S = {**dict.fromkeys(OWN, 150.0), **dict.fromkeys(STEPS, 240.0)}
LEAST_S = 5.0
ENDING_S = 15.0
"""Beyond its limit, for a part that does not end by itself."""


def steps(name: str, asked: argparse.Namespace) -> Report:
    """Whole steps of one workload, beside TRL where that is here."""
    from benchmarks.against_trl.__main__ import commands, over_floor, own_commands, rows_of
    from benchmarks.against_trl.job import Job
    from benchmarks.paired import compare
    from benchmarks.workloads import WORKLOADS, model_folder

    own = WORKLOADS[name]
    workload = replace(own, counted=1, model=own.model if asked.small else "0.5b")
    job = Job(workload, model_folder(workload.model), asked.device, asked.dtype, asked.threads)
    repetitions, warm_up = (1, 0) if asked.small else TURNS[name]
    turns = {"repetitions": repetitions, "warm_up": warm_up}
    try:
        sides = commands(job)
    except FileNotFoundError as error:
        found = compare(own_commands(job), threads=asked.threads, **turns)
        row = over_floor(f"({name}) {workload.title}: step, over the floor", found, "rollwright")
        missing = failed("on_gpu", str(error), f"({name}) {workload.title}: step, beside TRL").rows
        return Report(
            name=f"steps-{name}",
            rows=(replace(row, note=f"without TRL: {error}"), *missing),
            about={"raw": found.to_json()},
        )
    found = compare(sides, threads=asked.threads, **turns)
    rows = rows_of(workload, found, has_target=False)
    return Report(name=f"steps-{name}", rows=tuple(rows), about={"raw": found.to_json()})


def part_of(name: str, asked: argparse.Namespace) -> Report:
    """A part, here and now."""
    from rollwright.learner.placement import seen_devices, why_not_device

    why = why_not_device(asked.device, asked.dtype, seen_devices())
    if why is not None:
        return failed(name, f"{asked.device}: {why}")
    return own_part(name, asked) if name in OWN else steps(name.removeprefix("steps-"), asked)


def own_part(name: str, asked: argparse.Namespace) -> Report:
    """One of the parts that need this project alone."""
    import torch

    from benchmarks.on_gpu.parts import PARTS
    from benchmarks.on_gpu.place import LARGE, SMALL, Place

    torch.set_num_threads(asked.threads)
    place = Place(device=asked.device, dtype=asked.dtype, sizes=SMALL if asked.small else LARGE)
    return Report(name=name, rows=tuple(PARTS[name](place)))


def about_of(asked: argparse.Namespace) -> dict[str, Any]:
    """The machine, with what torch sees of it."""
    from rollwright.learner.placement import seen_devices

    seen = seen_devices()
    return {
        **machine(),
        "versions": versions("torch", "triton", "transformers", "rollwright"),
        "gpus": [gpu.name for gpu in seen.gpus],
        "driver": seen.driver,
        "device": asked.device,
        "dtype": asked.dtype,
        "threads": asked.threads,
        "is_small": asked.small,
    }


def go(asked: argparse.Namespace) -> Report:
    """All parts, one after the other, as long as there is time."""
    ends = time.monotonic() + asked.limit_s
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    with TemporaryDirectory(prefix="rollwright-on-gpu-") as scratch:
        for name in asked.parts:
            left = ends - time.monotonic()
            if left < LEAST_S:
                part = failed(name, f"the {asked.limit_s:.0f} s of this go were over")
            else:
                limit_s = min(left, LIMITS_S[name])
                script = Script("on_gpu", name, words_of(name, asked, limit_s), limit_s=limit_s + ENDING_S)
                part = run_script(script, Path(scratch) / f"{name}.json", threads=asked.threads)
            print("\n".join(table(part.rows)), flush=True)
            rows += part.rows
            raw[name] = dict(part.about)
    return Report(name="on_gpu", rows=tuple(rows), about={**about_of(asked), "raw": raw})


def words_of(name: str, asked: argparse.Namespace, limit_s: float) -> tuple[str, ...]:
    """What the process of a part is started with."""
    words = ("--part", name, "--device", asked.device, "--dtype", asked.dtype, "--limit-s", str(limit_s))
    return (*words, *(("--small",) if asked.small else ()), "--threads", str(asked.threads))


def end_within(limit_s: float) -> None:
    """Raise where the main thread stands when the time is over, so that what the part has started ends with it."""

    def over(*_: object) -> None:
        raise TimeoutError(f"it did not end within {limit_s:.0f} s")

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)


def read_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"))
    parser.add_argument("--small", action="store_true", help="the tiny model, one turn, and workload (a) alone")
    parser.add_argument("--parts", nargs="+", choices=(*OWN, *STEPS))
    parser.add_argument("--limit-s", type=float, default=570.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=(*OWN, *STEPS), help="this one alone, in this process")
    asked = parser.parse_args(words)
    asked.dtype = asked.dtype or ("float32" if asked.device == "cpu" else "bfloat16")
    asked.threads = asked.threads or (1 if asked.device == "cpu" else 8)
    asked.parts = asked.parts or [*OWN, *(("steps-a",) if asked.small else STEPS)]
    return asked


def main() -> None:
    asked = read_arguments()
    if asked.part is not None:
        end_within(asked.limit_s)
        report = part_of(asked.part, asked)
    else:
        report = go(asked)
    if asked.json is not None:
        write_report(report, asked.json)
    if asked.part is None and any(row.has_failed for row in report.rows):
        print("some rows have no figure; each says why.", flush=True)


if __name__ == "__main__":
    main()
