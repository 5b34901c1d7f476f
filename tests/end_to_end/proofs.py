"""The figures of long proofs: one JSON object a line, each with the commit, command and seeds that gave it.

With `--record FILE` a proof goes on where it was broken off: what the file has of this commit is not done again, and a
run that was killed is resumed. Without it, nothing outside the test's own folder is written.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollwright.evidence import RunFolder
from rollwright.recipes.build.machine import code_commit, framework_versions
from tests.end_to_end.small import ROOT, Ended, rollwright

Figures = Mapping[str, Any]


class Proofs:
    """The file of one proof, or none."""

    def __init__(self, file: Path | None, scratch: Path) -> None:
        self._file = file
        self._scratch = scratch
        self._commit = code_commit()

    def recorded(self, command: str, seeds: Sequence[int]) -> Figures | None:
        """What the file holds of this commit."""
        if self._file is None or not self._file.exists() or self._commit.endswith("-changed"):
            return None
        for line in self._file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if (entry["commit"], entry["command"], entry["seeds"]) == (self._commit, command, list(seeds)):
                return entry["figures"]
        return None

    def record(self, command: str, seeds: Sequence[int], figures: Figures) -> None:
        """Add a line."""
        if self._file is None:
            return
        entry = {"commit": self._commit, "command": command, "seeds": list(seeds), "figures": figures}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    @property
    def folder(self) -> Path:
        """Where runs lie: of this commit where figures are recorded, else the test's own."""
        return self._scratch if self._file is None else ROOT / "runs" / "proofs" / self._commit[:12]

    def run(self, name: str, *words: str, timeout_s: float) -> tuple[Path, Ended]:
        """Train with `rollwright train WORDS`, or go on with what an earlier attempt left.

        Args:
            name: of the run.
            words: behind `train`.
            timeout_s: for the whole command.
        """
        path = self.folder / name
        if (path / "manifest.json").exists():
            return path, rollwright("resume", path, "--json", timeout_s=timeout_s)
        return path, rollwright("train", *words, "--json", "--run-dir", path, timeout_s=timeout_s)


def conditions_of(run: Path) -> Figures:
    """What a content hash holds for: the machine and the packages."""
    machine = RunFolder.open(run).manifest.machine
    return {
        "cpu": machine.cpu_model,
        "capability": machine.torch_capability,
        "system": machine.operating_system,
        "threads": dict(machine.threads),
        "packages": dict(framework_versions()),
    }
