"""What a run stands on: the code's commit, package versions, the machine."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from rollwright.evidence.manifest import UNKNOWN, MachineSection
from rollwright.recipes.config.learning import RuntimeConfig

__all__ = [
    "code_commit",
    "commit_of",
    "container_digests",
    "diff_sha256",
    "driver_version",
    "framework_versions",
    "machine_section",
    "package_folder",
    "package_sha256",
    "role_threads",
    "sources_sha256",
]

_PACKAGES = (
    "rollwright",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "pyarrow",
    "duckdb",
    "pydantic",
    "reasoning-gym",
    "math-verify",
)
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_SOURCES = frozenset({".py", ".sql", ".toml", ".jinja"})


def code_commit() -> str:
    """The commit of the working tree that this package runs from, `-changed` where it differs; else its version."""
    return commit_of(package_folder())


def package_folder() -> Path:
    """Where the sources of this package are."""
    return Path(__file__).resolve().parents[2]


def package_sha256(room: str = "") -> str:
    """`sources_sha256` of this package or of a room of it, as the files were when this process first asked.

    Args:
        room: a folder below the package, such as `recipes/worlds`; empty: the whole package.
    """
    inside = f"{room}/" if room else ""
    return _sha256_of(
        (path.removeprefix(inside), sha256) for path, sha256 in _package_sources() if path.startswith(inside)
    )


def sources_sha256(folder: Path) -> str:
    """One digest of all Python sources, queries and presets below a folder, by their path there."""
    return _sha256_of(_sources_of(folder))


@cache
def _package_sources() -> tuple[tuple[str, str], ...]:
    return _sources_of(package_folder())


def _sources_of(folder: Path) -> tuple[tuple[str, str], ...]:
    """Path and digest of each source, in the order of the paths."""
    paths = sorted(p for p in folder.rglob("*") if p.suffix in _SOURCES and p.is_file())
    return tuple((p.relative_to(folder).as_posix(), hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths)


def _sha256_of(sources: Iterable[tuple[str, str]]) -> str:
    whole = hashlib.sha256()
    for path, sha256 in sources:
        whole.update(f"{path} {sha256}\n".encode())
    return whole.hexdigest()


def commit_of(package: Path) -> str:
    """The commit that a package's folder stands at, `-changed` where any file in it that git does not ignore differs.

    Args:
        package: a folder; outside of a repository the installed version is given.
    """
    try:
        commit = _git(package, "rev-parse", "HEAD")
        changed = _git(package, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return f"rollwright {metadata.version('rollwright')}"
    return f"{commit}-changed" if changed else commit


def diff_sha256(package: Path) -> str | None:
    """Of what a package's folder has that its commit has not: changes, and files that nobody added.

    Args:
        package: a folder.

    Returns:
        None where nothing differs, and outside of a repository.
    """
    try:
        changes = _git(package, "diff", "--binary", "--no-ext-diff", "HEAD", "--", ".")
        new = _git(package, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    whole = hashlib.sha256(changes.encode())
    for name in sorted(filter(None, new.split("\0"))):
        content = hashlib.sha256((package / name).read_bytes()).hexdigest()
        whole.update(f"\n{name} {content}".encode())
    return whole.hexdigest() if changes or new else None


def framework_versions() -> Mapping[str, str]:
    """Package to version, of what decides numbers."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def container_digests() -> tuple[str, ...]:
    """Of the container that the process is in: no container tells the digest of its image to what runs in it."""
    return (UNKNOWN,) if any(mark.exists() for mark in _CONTAINER_MARKS) else ()


def role_threads(runtime: RuntimeConfig) -> Mapping[str, int]:
    """Torch's threads by role: engine and learner take turns with all of them, or work at once with half each."""
    if runtime.max_lag == 0:
        return {"engine and learner in turns": runtime.threads}
    return dict.fromkeys(("engine", "learner"), max(1, runtime.threads // 2))


def driver_version() -> str | None:
    """Of the GPU's driver; None where there is no GPU."""
    from rollwright.learner.machine import cuda_driver

    return cuda_driver()


def machine_section(*, threads: Mapping[str, int]) -> MachineSection:
    """The machine as it is now.

    Args:
        threads: role to threads, as they were set.
    """
    from rollwright.learner.machine import accelerators, cpu_capability

    return MachineSection(
        cpu_model=_cpu_model(),
        torch_capability=cpu_capability(),
        num_cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        operating_system=platform.platform(),
        python=platform.python_version(),
        threads=threads,
        accelerators=accelerators(),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True, timeout=10)
    return done.stdout.decode(errors="surrogateescape").strip()
