"""Hold a finished `rollwright train --json` to what the default recipe claims.

python -m tools.claims FILE           FILE holds the output; its last line is the summary
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["broken_claims", "main"]

HIGHEST_BEFORE = 0.60
"""After the warm start the agent must still have something to learn from reward."""
LOWEST_AFTER = 0.90
FEWEST_TASKS = 200


def broken_claims(summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each claim that the summary does not carry; empty if it carries all."""
    before, after = summary["before"], summary["after"]
    broken: list[str] = []
    if not before["success"] < HIGHEST_BEFORE:
        broken.append(
            f"success before reinforcement learning is {before['success']:.3f}; it must be below {HIGHEST_BEFORE}"
        )
    if not after["success"] >= LOWEST_AFTER:
        broken.append(f"success after training is {after['success']:.3f}; it must be at least {LOWEST_AFTER}")
    if not before["high"] < after["low"]:
        broken.append(f"the intervals touch: before ends at {before['high']:.3f}, after starts at {after['low']:.3f}")
    if min(before["tasks"], after["tasks"]) < FEWEST_TASKS:
        broken.append(f"{before['tasks']} and {after['tasks']} held-out tasks; each must be at least {FEWEST_TASKS}")
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict; the exit code is 1 if a claim is broken or no summary is there."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    try:
        summary = json.loads(lines[-1])
        broken = broken_claims(summary)
    except (IndexError, KeyError, TypeError, ValueError):
        broken = [f"the last line of {name} is no summary with run, steps, seconds, before and after"]
        summary = None
    for sentence in broken:
        sys.stderr.write(f"broken claim: {sentence}\n")
    if summary is not None:
        keys = ("steps", "seconds", "before", "after")
        sys.stdout.write(json.dumps({key: summary.get(key) for key in keys}) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
