"""A repair is judged by hidden calls: the final sources in a fresh sandbox, inputs in, plain values out.

    artifact ──► its sources over the task's own tests ──► a sandbox of the verifier's pool ──► one process a call
                                                                                                  │ plain JSON
                                                            expected values stay here ──► compared in this process

Nothing that the repaired code does in its process can say what a call should have given, because no expected value, no
assertion and no test runner is there. What it can do is give a wrong value, or none.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rollwright.record import Submission, Verdict, digest
from rollwright.sandboxes import Sandbox, SandboxError, Sandboxes, SandboxFileError
from rollwright.tasks import (
    PLAIN_VALUES_REVISION,
    HiddenTest,
    Json,
    PatchError,
    Repository,
    TaskError,
    apply_patch,
    plain_value,
    read_json,
    repository_of,
    same_value,
)
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import Grade, bad_gold
from rollwright.verifiers.test_runs import RunEnding, TestRun, grade_run

__all__ = ["REPOSITORY_PATCH", "REPOSITORY_PRELOADED", "REPOSITORY_TREE", "RepositoryVerifier", "judged_files"]

REPOSITORY_TREE = "tree.json"
"""Artifact of an episode: `{"files": {path: text}, …}`."""
REPOSITORY_PATCH = "patch.diff"
"""Artifact instead of it: a unified difference to the task's files."""
REPOSITORY_PRELOADED = ("importlib", "json")
"""Modules that every hidden call needs, for the profile of the verifier's sandboxes: half of its time went to them."""
_REVISION = 2
_MAX_ANSWER = 12_000
_MAX_ARTIFACT = 8 * 2**20
_MAX_FILES = 1000
_CONTROLS = frozenset(
    {"conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"}
)
"""Files that steer how tests or Python itself run; like tests they are taken from the task, never from an episode."""
_CALLER = f"""\
import importlib, json, os, sys
sys.dont_write_bytecode = True
answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1), os.dup2(nowhere, 2)
asked = json.load(sys.stdin)
sys.path.insert(0, os.getcwd())
{inspect.getsource(plain_value)}
try:
    function = getattr(importlib.import_module(asked["module"]), asked["name"])
    value = plain_value(function(*asked["arguments"]))
except Exception as error:
    value = ["raises", type(error).__name__]
os.write(answers, json.dumps(value).encode()[:{_MAX_ANSWER} + 1])
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryVerifier:
    """A `record.Verifier`; the pool is not the episodes', and is closed by whoever made it."""

    pool: Sandboxes
    name: str = "repository"
    deadline_s: float = 300.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules and of what the calls run in."""
        return digest([_REVISION, PLAIN_VALUES_REVISION, self.name, _CALLER, sorted(_CONTROLS), self.pool.profile_id])[
            :16
        ]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        revision = self.revision
        try:
            grade = await self._grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, revision, error)
        except SandboxError as error:
            grade, evidence = "infrastructure", f"the sandbox failed: {error}"
        else:
            evidence = "the run was lost" if isinstance(grade, str) else grade.evidence
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=revision,
            scope="trajectory",
            outcome=grade if isinstance(grade, str) else grade.value,
            components=() if isinstance(grade, str) else grade.components,
            finding=None if isinstance(grade, str) else grade.finding,
            evidence=evidence,
        )

    async def _grade(self, submission: Submission) -> Grade | Literal["infrastructure"]:
        try:
            repository = repository_of(submission.task)
        except TaskError as error:
            raise GoldError(str(error)) from error
        if not repository.fail_to_pass:
            raise GoldError("no test would tell a repair from none")
        submitted = _submitted(submission, repository)
        if isinstance(submitted, Grade):
            return submitted
        async with self.pool.take() as sandbox:
            try:
                for path, text in judged_files(repository, submitted).items():
                    await sandbox.write(path, text.encode())
            except SandboxFileError as error:  # A name that is too long, a file where a folder is due, a full disk.
                return _bad_tree(str(error)[:400])
            run = await _run(sandbox, [*repository.fail_to_pass, *repository.pass_to_pass])
        return grade_run(
            run,
            fail_to_pass=[test.test_id for test in repository.fail_to_pass],
            pass_to_pass=[test.test_id for test in repository.pass_to_pass],
        )


def judged_files(repository: Repository, submitted: Mapping[str, str]) -> dict[str, str]:
    """The submitted sources, with tests and what steers their run as the task has them.

    Args:
        repository: of the task.
        submitted: path to text.
    """
    own = {path: text for path, text in repository.files.items() if _is_kept(path)}
    return {**{path: text for path, text in submitted.items() if not _is_kept(path)}, **own}


def _is_kept(path: str) -> bool:
    return path.startswith("tests/") or path.rsplit("/", 1)[-1] in _CONTROLS or path.endswith(".pth")


def _submitted(submission: Submission, repository: Repository) -> Mapping[str, str] | Grade:
    """The final files, or the grade where there are none that could be judged."""
    artifacts = submission.artifacts
    if REPOSITORY_PATCH in artifacts:
        try:
            return apply_patch(repository.files, artifacts[REPOSITORY_PATCH].decode())
        except (PatchError, UnicodeDecodeError) as error:
            return Grade(value=0.0, finding="bad_patch", evidence=str(error))
    if REPOSITORY_TREE not in artifacts:
        return Grade(value=0.0, finding="nothing_changed", evidence="the episode used no tool")
    files = _files(artifacts[REPOSITORY_TREE])
    return files if files is not None else _bad_tree("the artifact is no tree")


def _bad_tree(why: str) -> Grade:
    return Grade(value=0.0, finding="bad_tree", evidence=why)


def _files(data: bytes) -> Mapping[str, str] | None:
    try:
        loaded = read_json(data.decode()) if len(data) <= _MAX_ARTIFACT else None
    except (ValueError, RecursionError):
        return None
    files = loaded.get("files") if isinstance(loaded, Mapping) else None
    if not isinstance(files, Mapping) or len(files) > _MAX_FILES:
        return None
    safe = {
        path: text
        for path, text in files.items()
        if isinstance(text, str) and _is_inside(path) and _is_unicode(path) and _is_unicode(text)
    }
    return safe if len(safe) == len(files) else None


def _is_inside(path: str) -> bool:
    return not path.startswith("/") and "\0" not in path and not {"..", "", ".", ".git"}.intersection(path.split("/"))


def _is_unicode(text: str) -> bool:
    """Whether it can be written at all: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _run(sandbox: Sandbox, tests: Sequence[HiddenTest]) -> TestRun:
    """Every call in a process of its own; one that does not end by itself ends the run."""
    outcomes: dict[str, bool] = {}
    for test in tests:
        module, name = test.function.split(":")
        asked = {"module": module, "name": name, "arguments": test.arguments}
        result = await sandbox.program(_CALLER, stdin=json.dumps(asked).encode())
        match result.status:
            case "timeout" | "cpu_limit" | "memory_limit":
                ending: RunEnding = "memory_limit" if result.status == "memory_limit" else "timeout"
                return TestRun(outcomes=outcomes, exit_code=result.exit_code, ending=ending)
            case "ok" | "failed":
                if result.exit_code == 0 and result.stdout:
                    outcomes[test.test_id] = same_value(_value(result.stdout), test.expected)
    return TestRun(outcomes=outcomes, exit_code=0)


def _value(text: str) -> Json:
    """What a call gave; None, which no value is written as, where it is no JSON."""
    if len(text) > _MAX_ANSWER:
        return None
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return None
