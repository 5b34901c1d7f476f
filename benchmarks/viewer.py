"""How soon the page of a large run can be read: first paint in a real browser, and the server's answer without one.

    python benchmarks/viewer.py --segments 1000000 --steps 400

Writes such a run (valid commits, in bulk), serves it in a process of its own, and opens each page in Debian's Chromium;
the first opening of the overview is the server's first request for the run. One line a page, medians over the rounds.
"""

import argparse
import json
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
                _measure(home, asked.rounds)
            finally:
                server.terminate()


def _measure(home: str, rounds: int) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        for name, path in PAGES.items():
            answered = [_answered_s(home + path) for _ in range(rounds)]
            _print(page=name, first_s=answered[0], median_s=statistics.median(answered))
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
            answered = [_answered_s(home + path) for _ in range(rounds)]
            _print(
                page=name,
                first_paint_s=painted[0],
                median_paint_s=statistics.median(painted),
                median_answer_s=statistics.median(answered),
            )
        browser.close()


def _answered_s(address: str) -> float:
    begun = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return time.perf_counter() - begun


def _print(**figures: object) -> None:
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
