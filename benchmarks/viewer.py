"""How soon the page of a large run can be read: first paint in a real browser, and the server's answer without one.

    python benchmarks/viewer.py --segments 1000000 --steps 400

Writes such a run (valid commits, in bulk), serves it in a process of its own, and opens each page in Debian's Chromium;
the first opening of the overview is the server's first request for the run. One line a page, medians over the rounds;
`median_cpu_s` is the processor time that the server spent on an answer, which a busy machine does not change much.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.viewer.page.large_run import write_large_run

PAGES = {
    "overview": "",
    "episodes": "/episodes",
    "episodes, last page": "/episodes?page=999999",
    "episodes, filtered and sorted": "/episodes?purpose=train&least=0.5&order=longest",
    "episodes, by tool": "/episodes?tool=calculator&order=worst",
    "episodes, by part of an id": "/episodes?text=077-03",
    "episode": "/episode/t000077-03-0",
    "step": "/step/1",
    "ledger": "/ledger",
    "time": "/time",
    "curves": "/curves",
    "manifest": "/manifest",
}
PAINT = """() => new Promise((done) => {
  const found = () => performance.getEntriesByName("first-contentful-paint")[0];
  if (found()) return done(found().startTime);
  new PerformanceObserver(() => found() && done(found().startTime)).observe({type: "paint", buffered: true});
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", type=Path, help="measure this run folder instead of writing one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = asked.run
        if run is None:
            begun = time.perf_counter()
            run = write_large_run(Path(folder) / "large", segments=asked.segments, steps=asked.steps)
            _print(wrote_s=time.perf_counter() - begun, segments=asked.segments, steps=asked.steps)
        begun = time.perf_counter()
        command = [sys.executable, "-m", "rollwright", "view", str(run), "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            home = json.loads(server.stdout.readline())["address"] + f"r/{run.name}"
            _print(server_started_s=time.perf_counter() - begun)
            try:
                _measure(home, server.pid, asked.rounds)
            finally:
                server.terminate()


def _measure(home: str, server: int, rounds: int) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        for name, path in PAGES.items():
            _print(page=name, **_answers(home + path, server, rounds))
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        warm = browser.new_page()
        warm.goto("about:blank")
        for name, path in PAGES.items():
            painted: list[float] = []
            for _ in range(rounds):
                context = browser.new_context()
                page = context.new_page()
                page.goto(home + path, wait_until="commit")
                painted.append(page.evaluate(PAINT) / 1000)
                context.close()
            answers = _answers(home + path, server, rounds)
            _print(page=name, first_paint_s=painted[0], median_paint_s=statistics.median(painted), **answers)
        browser.close()


def _answers(address: str, server: int, rounds: int) -> dict[str, float]:
    """Seconds on the clock, and of the server's processor time."""
    clock: list[float] = []
    processor: list[float] = []
    for _ in range(rounds):
        begun, spent = time.perf_counter(), _processor_s(server)
        with urllib.request.urlopen(address) as answer:
            answer.read()
        clock.append(time.perf_counter() - begun)
        processor.append(_processor_s(server) - spent)
    return {"median_answer_s": statistics.median(clock), "median_cpu_s": statistics.median(processor)}


def _processor_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print(**figures: object) -> None:
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
