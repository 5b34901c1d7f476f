"""The page on other people's agents shows what its example prints."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/other-peoples-agents.md"


def test_the_example_prints_what_the_page_shows():
    blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    asked = [sys.executable, "-W", "error", "-c", blocks["python"]]
    assert subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120).stdout == blocks[""]
