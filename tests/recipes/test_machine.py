"""Which code a run was made by."""

import subprocess
from pathlib import Path

from rollwright.recipes.build.machine import commit_of


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_change_anywhere_in_the_package_is_told(tmp_path: Path):
    package = tmp_path / "src" / "package"
    (package / "deep").mkdir(parents=True)
    (package / "deep" / "numbers.py").write_text("ONE = 1\n")
    (tmp_path / "notes.md").write_text("nothing\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "Begin")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(package) == commit
    (tmp_path / "notes.md").write_text("what the package does not run\n")
    assert commit_of(package) == commit
    (package / "deep" / "numbers.py").write_text("ONE = 2\n")
    assert commit_of(package) == f"{commit}-changed"
