"""The runs that a page shows: those given, or all below a folder; each by a name that is safe in an address."""

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence.following import FollowedRun, Look
from rollwright.viewer.figures_run import RunNumbers, read_numbers
from rollwright.viewer.page.errors import NotFoundError

__all__ = ["ServedRun", "Shelf", "StatedNumbers"]

_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LOOKED_AGAIN_S = 2.0
_DEEPEST = 3
"""Folders below the one given in which runs are looked for."""
_REST = 8
"""Reading all numbers of a run may take one part of the time in so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedNumbers:
    """All numbers of a run, and of which state of it they are."""

    revision: str
    numbers: RunNumbers


class ServedRun:
    """One run of a page, read by many requests."""

    def __init__(self, slug: str, name: str, path: Path) -> None:
        """`name` is what a person calls it: its folder, from where runs were looked for."""
        self.slug = slug
        self.name = name
        self.path = path
        self._followed = FollowedRun(path)
        self._lock = threading.Lock()
        self._numbers: StatedNumbers | None = None
        self._made_at = 0.0
        self._cost_s = 0.0

    def look(self) -> Look:
        """The run as it stands now; see `FollowedRun.look`."""
        return self._followed.look()

    def numbers(self) -> StatedNumbers:
        """What its curves are made of: of now, or of a little earlier where reading it again would keep us busy."""
        revision = self.look().revision
        with self._lock:
            rested = time.monotonic() - self._made_at > _REST * self._cost_s
            if self._numbers is None or (self._numbers.revision != revision and rested):
                begun = time.monotonic()
                self._numbers = StatedNumbers(revision=revision, numbers=read_numbers(self.path, verification="sizes"))
                self._made_at = time.monotonic()
                self._cost_s = self._made_at - begun
            return self._numbers


class Shelf:
    """Runs by slug; a run that appears later is found, one that is deleted stays known and says that it is gone."""

    def __init__(self, paths: Sequence[Path], roots: Sequence[Path]) -> None:
        """Serve `paths`, and what lies below `roots`."""
        self._lock = threading.Lock()
        self._roots = tuple(root.resolve() for root in roots)
        self._runs: dict[str, ServedRun] = {}
        self._known: set[Path] = set()
        self._searched_at = float("-inf")
        for path in paths:
            self._add(path.resolve(), path.resolve().name)

    @property
    def home(self) -> str:
        """Where runs are looked for, as a person reads it."""
        return ", ".join(map(str, self._roots)) or "those given"

    def runs(self) -> tuple[ServedRun, ...]:
        """All, by name."""
        self._search()
        return tuple(sorted(list(self._runs.values()), key=lambda run: run.name))

    def run(self, slug: str) -> ServedRun:
        """The run of that slug; nothing else of an address reaches the file system.

        Raises:
            NotFoundError: when there is none.
        """
        if slug not in self._runs:
            self._search()
        found = self._runs.get(slug)
        if found is None:
            raise NotFoundError(f"there is no run {slug!r} here; the list of runs names those that there are.")
        return found

    def _search(self) -> None:
        with self._lock:
            if time.monotonic() - self._searched_at < _LOOKED_AGAIN_S:
                return
            for root in self._roots:
                for path in _run_folders(root, _DEEPEST):
                    self._add(path, str(path.relative_to(root)) if path != root else path.name)
            self._searched_at = time.monotonic()

    def _add(self, path: Path, name: str) -> None:
        if path in self._known:
            return
        self._known.add(path)
        stem = _SAFE.sub("-", name).strip("-.") or "run"
        slug, tries = stem, 1
        while slug in self._runs:
            tries += 1
            slug = f"{stem}-{tries}"
        self._runs[slug] = ServedRun(slug, name, path)


def _run_folders(folder: Path, levels: int) -> list[Path]:
    if (folder / "manifest.json").is_file():
        return [folder]
    if levels == 0:
        return []
    try:
        inner = sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return []
    return [run for path in inner for run in _run_folders(path, levels - 1)]
