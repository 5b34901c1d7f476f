"""Which scripts `make bench` runs, and running one of them so that its failure is a row and not an end."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paired import THREADS
from benchmarks.report import Report, failed, read_report, write_report

__all__ = ["RESULTS", "SCRIPTS", "Script", "run_script"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Script:
    """A module of this folder that takes `--json FILE`."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    limit_s: float = 3600.0

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", f"benchmarks.{self.name}", *self.arguments]

    @property
    def is_there(self) -> bool:
        found = importlib.util.find_spec(f"benchmarks.{self.name}")
        if found is None or found.submodule_search_locations is None:
            return found is not None
        return importlib.util.find_spec(f"benchmarks.{self.name}.__main__") is not None


SCRIPTS = (
    Script("against_trl", "A step of training against TRL"),
    Script("tools_trl", "Episodes with a calculator against TRL"),
    Script("floor", "Episodes with a calculator over the floor", ("--of", str(RESULTS / "tools_trl.json"))),
    Script("success", "Time to a declared success against TRL", limit_s=4 * 3600.0),
    Script("engine", "The engine alone"),
    Script("learner", "The learner alone"),
    Script("shared_prompt", "Shared prompts in the learner"),
    Script("scoring_memory", "Memory of scoring"),
    Script("recording", "Record, store, ledger, receipts"),
    Script("publication", "Publication of weights"),
    Script("checkpoints", "Checkpoints"),
    Script("scale", "Cost by tokens, groups and sources"),
    Script("memory", "Memory over many steps"),
)
"""In the order of the tables."""


def run_script(script: Script, file: Path, *, threads: int, more: Sequence[str] = ()) -> Report:
    """Run it and read what it wrote; a row with the reason where it wrote nothing.

    Args:
        script: of `SCRIPTS`.
        file: for its report.
        threads: of the libraries, by environment variables; scripts that set their own say so in their report.
        more: arguments beside its own.
    """
    if not script.is_there:
        return failed(script.name, f"there is no benchmarks.{script.name}", script.title)
    # Scripts name their neighbors by `benchmarks.NAME`, or as files that are run where they lie.
    path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, str(threads))}
    file.unlink(missing_ok=True)
    began = time.monotonic()
    command = [*script.command, *more, "--json", str(file)]
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=script.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _noted(failed(script.name, f"it did not end within {script.limit_s:.0f} s", script.title), file)
    if file.is_file():
        try:
            report = read_report(file)
        except (KeyError, TypeError, ValueError) as error:
            return _noted(failed(script.name, f"its report is none: {error!r}", script.title), file)
        print(f"{script.name}: {time.monotonic() - began:.0f} s", flush=True)
        return report
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    print("\n".join(lines[-20:]), file=sys.stderr, flush=True)
    return _noted(failed(script.name, f"it ended with code {ended.returncode}: {last[:300]}", script.title), file)


def _noted(report: Report, file: Path) -> Report:
    write_report(report, file)
    return report
