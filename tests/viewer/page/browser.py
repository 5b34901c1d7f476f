"""A real browser, a real server, and a record of whatever went wrong while a page was looked at."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_IS_REQUIRED = os.environ.get("ROLLWRIGHT_BROWSER") == "required"
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not _IS_REQUIRED,
    reason="no chromium on the path; install it, or set ROLLWRIGHT_BROWSER=required to fail instead",
)


@contextmanager
def served(*arguments: str) -> Generator[str]:
    """The address of `rollwright view` in a process of its own, which Ctrl-C ends."""
    command = [sys.executable, "-m", "rollwright", "view", *arguments, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line)["address"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


@dataclass
class Watch:
    """What a page did beside showing itself."""

    home: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def follow(self, page) -> None:
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(self.home) else self.foreign.append(r.url))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def assert_clean(self) -> None:
        assert self.errors == []
        assert self.foreign == []


@contextmanager
def browser() -> Generator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "ROLLWRIGHT_BROWSER=required, and there is no chromium on the path"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        try:
            yield started
        finally:
            started.close()


def wait_until(page, expression: str, limit_s: float = 60) -> None:
    """Until an expression is true on the page; the browser's own way would need `eval`, which the page forbids."""
    deadline = time.monotonic() + limit_s
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"not within {limit_s} s: {expression}"
        page.wait_for_timeout(50)
