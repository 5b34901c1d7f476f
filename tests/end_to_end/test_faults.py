"""Deliberate faults of the mathematics, each of which the tests must notice.

`tests/data/faults.toml` was written from the sources and the catalogue alone, apart from the tests. A fault is put into
a copy of the sources; then the shipped fixtures run against the copy, the tests that name the faulty module, and the
rest of the mathematics, until one fails. A fault that nothing notices survives, and is a hole in the tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import ROOT

TIMEOUT_S = 900
FOLDERS = ("tests/algorithms", "tests/statistics", "tests/batches", "tests/recipes", "tests/learner", "tests/runtime")


@dataclass(frozen=True, kw_only=True)
class Fault:
    id: str
    file: str
    old: str
    new: str
    says: str


FAULTS = [Fault(**one) for one in tomllib.loads((ROOT / "tests/data/faults.toml").read_text("utf-8"))["fault"]]


def test_every_fault_is_another_text_that_stands_once():
    assert len({fault.id for fault in FAULTS}) == len(FAULTS) >= 20
    for fault in FAULTS:
        source = (ROOT / fault.file).read_text(encoding="utf-8")
        assert source.count(fault.old) == 1, fault.id
        assert fault.old != fault.new


@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_noticed(fault: Fault, proofs: Proofs, tmp_path: Path) -> None:
    command = f"make prove-faults: {fault.id} in {fault.file}"
    figures = proofs.recorded(command, [])
    if figures is None:
        figures = {"says": fault.says, "noticed_by": _noticed_by(fault, tmp_path)}
        proofs.record(command, [], figures)
    assert figures["noticed_by"] is not None, f"nothing notices that {fault.says}"


def _noticed_by(fault: Fault, folder: Path) -> str | None:
    """The first test that fails under the fault; None where all pass."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / fault.file
    file.write_text(file.read_text(encoding="utf-8").replace(fault.old, fault.new), encoding="utf-8")
    if _fixtures_fail(source):
        return "rollwright fixtures"
    module = fault.file.removeprefix("src/").removesuffix(".py").replace("/", ".")
    first = _naming(module, (ROOT / fault.file).read_text(encoding="utf-8"))
    for chosen in (first, list(FOLDERS)):
        failed = _first_failure(chosen, source)
        if failed is not None:
            return failed
    return None


def _naming(module: str, source: str) -> list[str]:
    """Test files that name the module, before those that name what it exports."""
    files = [file for name in FOLDERS for file in sorted((ROOT / name).rglob("test_*.py"))]
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    exported = re.findall(r'"(\w+)"', source.partition("__all__ = [")[2].partition("]")[0])
    by_module = [name for name, text in texts.items() if module in text]
    anything = re.compile(rf"\b({'|'.join(exported)})\b") if exported else None
    by_name = [name for name, text in texts.items() if anything is not None and anything.search(text)]
    return [*by_module, *(name for name in by_name if name not in by_module)]


def _fixtures_fail(source: Path) -> bool:
    words = [sys.executable, "-m", "rollwright", "fixtures"]
    return subprocess.run(words, env=_environment(source), capture_output=True, timeout=TIMEOUT_S).returncode != 0


def _first_failure(chosen: Sequence[str], source: Path) -> str | None:
    if not chosen:
        return None
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-n", "0", *chosen]
    ended = subprocess.run(words, cwd=ROOT, env=_environment(source), capture_output=True, text=True, timeout=TIMEOUT_S)
    if ended.returncode == 0:
        return None
    assert ended.returncode == 1, ended.stdout[-2000:] + ended.stderr[-2000:]
    return next(line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))).split(" - ")[0]


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
