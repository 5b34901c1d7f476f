"""All benchmarks, their figures and the pages made of them.

python -m benchmarks [NAME ...]      run the scripts, or those named; write benchmarks/results, the pages
python -m benchmarks --pages         write the pages again from benchmarks/results
python -m benchmarks --check         a short run beside benchmarks/regression.json; 1 where a ratio fell
python -m benchmarks --keep          write benchmarks/regression.json from benchmarks/results
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import NOT_RUN, readme_block, replace_block, speed_page
from benchmarks.regression import SHORT, compared, read_standings, standing_of, write_standings
from benchmarks.report import Report, failed, machine, read_report, table, versions
from benchmarks.suite import RESULTS, SCRIPTS, Script, run_script

ROOT = Path(__file__).resolve().parents[1]
SETTING = RESULTS / "setting.json"
PAGE, README = ROOT / "docs" / "reference" / "speed.md", ROOT / "README.md"
NAMES = [script.name for script in SCRIPTS]


def run(names: Sequence[str], threads: int) -> None:
    """Run them one after the other; the reports of the others stay as they are."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        if script.name in names:
            print(f"== {script.name}: {script.title}", flush=True)
            report = run_script(script, RESULTS / f"{script.name}.json", threads=threads)
            print("\n".join(table(report.rows)), flush=True)
    SETTING.write_text(json.dumps(setting_here(threads), indent=2) + "\n", encoding="utf-8")


def setting_here(threads: int) -> dict[str, Any]:
    """What the pages say of where and when."""
    found = versions("rollwright", "torch", "transformers")
    return {**machine(), "threads": threads, "versions": found, "command": "make bench"}


def write_pages(threads: int) -> None:
    """The reference page, and the block of the README."""
    has_run = SETTING.is_file()
    setting: dict[str, Any] = json.loads(SETTING.read_text(encoding="utf-8")) if has_run else setting_here(threads)
    reports = [stored(script) for script in SCRIPTS]
    PAGE.write_text(speed_page(reports, setting), encoding="utf-8")
    README.write_text(replace_block(README.read_text(encoding="utf-8"), readme_block(reports, setting)), "utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {README.relative_to(ROOT)}", flush=True)


def stored(script: Script) -> Report:
    file = RESULTS / f"{script.name}.json"
    return read_report(file) if file.is_file() else failed(script.name, NOT_RUN, script.title)


def check(threads: int) -> int:
    """Say what fell."""
    faults: list[str] = []
    try:
        standings = read_standings()
    except FileNotFoundError as error:
        print(error, flush=True)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for name, standing in standings.items():
            script = next(script for script in SCRIPTS if script.name == name)
            file = Path(folder) / f"{name}.json"
            report = run_script(script, file, threads=threads, more=standing.arguments)
            faults += compared(standing, report)
    print("\n".join(faults) if faults else "No ratio fell by more than its spread.", flush=True)
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"scripts to run, of {', '.join(NAMES)}; none: all")
    parser.add_argument("--threads", type=int, default=1, help="that each side may take")
    for word, help_text in (
        ("--pages", "write the pages alone"),
        ("--check", "a short run"),
        ("--keep", "what later runs are compared with"),
    ):
        parser.add_argument(word, action="store_true", help=help_text)
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(NAMES)):
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(NAMES)}")
    if asked.check:
        return check(asked.threads)
    if asked.keep:
        kept = [script for script in SCRIPTS if script.name in SHORT]
        write_standings({script.name: standing_of(stored(script), SHORT[script.name]) for script in kept})
        return 0
    if not asked.pages:
        run(asked.names or NAMES, asked.threads)
    write_pages(asked.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
