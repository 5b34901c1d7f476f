"""Which code a run was made by."""

import subprocess
from pathlib import Path

import pytest

from rollwright.recipes.build.machine import commit_of, package_folder, package_sha256, sources_sha256


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


def test_the_sources_of_the_package_are_read_once_and_every_room_has_the_digest_of_its_folder(
    monkeypatch: pytest.MonkeyPatch,
):
    whole, worlds = package_sha256(), package_sha256("recipes/worlds")
    assert whole == sources_sha256(package_folder())
    assert worlds == sources_sha256(package_folder() / "recipes" / "worlds")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
        assert (package_sha256(), package_sha256("recipes/worlds")) == (whole, worlds)
        assert package_sha256("verifiers") != package_sha256("tasks")
