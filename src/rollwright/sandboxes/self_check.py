"""What a program inside must not be able to do, tried before any other program runs."""

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path

from rollwright.sandboxes.bubblewrap import DISKS, LEAST_DISK_BYTES, WORK
from rollwright.sandboxes.errors import SandboxError
from rollwright.sandboxes.sandbox import Sandboxes

__all__ = ["openings_of"]

PROBE = Path(__file__).parent / "inside" / "probe.py"
PROBE_S = 30.0


async def openings_of(sandboxes: Sandboxes, variables: Collection[str]) -> tuple[str, ...]:
    """What is open that should not be, in words; empty where all holds.

    Args:
        sandboxes: The pool; one sandbox of it is used and ended.
        variables: Names that the environment of a program may hold.

    Raises:
        SandboxError: If the check itself does not run to its end.
    """
    profile = sandboxes.profile
    expected = {
        "isolation": profile.isolation,
        "variables": sorted(variables),
        "hidden": _hidden(),
        "disks": list(DISKS),
        "disk_bytes": max(LEAST_DISK_BYTES, profile.limits.disk_bytes) + 2**16,
    }
    code = PROBE.read_text(encoding="utf-8")
    async with sandboxes.take() as sandbox:
        result = await sandbox.program(code, argv=[json.dumps(expected)], wall_s=PROBE_S)
    try:
        return tuple(map(str, json.loads(result.stdout)["openings"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxError(
            f"the check of the wall did not end well: {result.status}, {result.stderr[-500:]}"
        ) from error


def _hidden() -> list[str]:
    """Folders of this machine that no program may see, where there are such."""
    base = os.path.realpath(sys.base_prefix)
    inside = ("/", "/dev", "/proc", "/tmp", WORK)
    places = [os.path.realpath(place) for place in (Path.cwd(), sys.prefix, PROBE.parent, "/home")]
    return [
        place
        for place in places
        if place not in inside and not base.startswith(place) and not place.startswith((base, "/usr"))
    ]
