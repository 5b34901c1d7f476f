"""Compute the expected numbers of the shipped fixtures again by `tools/reference.py` and print what differs.

python -m tools.golden
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tools.reference import REFERENCES

__all__ = ["differences", "main"]

FIXTURES = Path(__file__).resolve().parents[1] / "src/rollwright/recipes/fixtures/methods.json"


def differences(fixture: Mapping[str, Any]) -> list[str]:
    """A line for each expected value of one fixture that its reference does not give."""
    computed = REFERENCES[fixture["method"]](fixture["input"])
    lines: list[str] = []
    for name, expected in fixture["expect"].items():
        if name not in computed:
            lines.append(f"{fixture['id']} {name}: expected {expected}, the reference is silent")
        elif not _agree(computed[name], expected, fixture["tol"]):
            lines.append(f"{fixture['id']} {name}: expected {expected}, the reference gives {computed[name]}")
    return lines


def main() -> int:
    """Print the differences and a count; the exit code is 1 if there is a difference."""
    fixtures = json.loads(FIXTURES.read_text(encoding="utf-8"))["fixtures"]
    covered = [fixture for fixture in fixtures if fixture["method"] in REFERENCES]
    lines = [line for fixture in covered for line in differences(fixture)]
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(covered)} of {len(fixtures)} fixtures computed again, {len(lines)} values differ\n")
    return 1 if lines else 0


def _agree(computed: object, expected: object, tolerance: float) -> bool:
    if isinstance(computed, list) and isinstance(expected, list):
        pairs = zip(cast("list[object]", computed), cast("list[object]", expected), strict=False)
        return len(cast("list[object]", computed)) == len(cast("list[object]", expected)) and all(
            _agree(c, e, tolerance) for c, e in pairs
        )
    if isinstance(computed, int | float) and isinstance(expected, int | float):
        return math.isclose(computed, expected, rel_tol=tolerance, abs_tol=tolerance)
    return computed == expected


if __name__ == "__main__":
    sys.exit(main())
