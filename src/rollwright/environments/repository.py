"""Repair of a repository: its files and its past lie in the episode's sandbox, and the policy works on them by tools.

Tools run as programs inside the sandbox, files included: whatever a path leads to, it leads nowhere outside.
"""

import json
from collections.abc import Mapping

from rollwright.environments.call_rules import ToolLimits
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.git_folder import git_folder
from rollwright.environments.sandbox_tools import ToolAnswer, sandbox_tool, told_program, told_shell
from rollwright.environments.sandboxed import Furnishing, SandboxEnvironment
from rollwright.record import Task, ToolRequest, canonical_json
from rollwright.sandboxes import Sandbox, Sandboxes
from rollwright.tasks import repository_of

__all__ = [
    "REPOSITORY_INSTRUCTION",
    "REPOSITORY_TREE",
    "called",
    "collect_tree",
    "lay_repository",
    "repair_turns",
    "repository_environment",
]

REPOSITORY_TREE = "tree.json"
"""Artifact: `{"files": {path: text}, "left_out": [path]}`, the working folder at the end, without git and caches."""
REPOSITORY_INSTRUCTION = (
    "You work in a repository with tools. Repair what is reported, change no tests, and end with a turn that calls no "
    "tool. Tests that you cannot see decide."
)
_REVISION = "repository-1"
_MAX_FILES = 400
_MAX_FILE_BYTES = 128 * 1024
_MAX_TREE_BYTES = 512 * 1024
_NOT_SOURCE = frozenset({".git", "__pycache__", ".pytest_cache"})
_READ = """\
import sys
with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    sys.stdout.write(file.read(100000))
"""
_WRITE = """\
import json, os, sys
asked = json.load(sys.stdin)
os.makedirs(os.path.dirname(asked["path"]) or ".", exist_ok=True)
with open(asked["path"], "w", encoding="utf-8", newline="") as file:
    file.write(asked["text"])
print("written")
"""
_EDIT = """\
import json, sys
asked = json.load(sys.stdin)
with open(asked["path"], encoding="utf-8", newline="") as file:
    text = file.read()
count = text.count(asked["old"])
if count != 1:
    sys.exit(f"the old text stands {count} times in the file; it must stand there once")
with open(asked["path"], "w", encoding="utf-8", newline="") as file:
    file.write(text.replace(asked["old"], asked["new"]))
print("edited")
"""
_TESTS = """\
import io, sys, unittest
sys.dont_write_bytecode = True
sys.path.insert(0, ".")

class Seen(unittest.TestResult):
    def addFailure(self, test, error):
        print("FAILED", test.id(), str(error[1]).strip().splitlines()[:1])
        super().addFailure(test, error)
    def addError(self, test, error):
        print("ERROR", test.id(), error[0].__name__, str(error[1]).strip().splitlines()[:1])
        super().addError(test, error)

seen = Seen()
unittest.defaultTestLoader.discover("tests", top_level_dir=".").run(seen)
bad = len(seen.failures) + len(seen.errors)
print(f"{seen.testsRun - bad} of {seen.testsRun} tests pass")
sys.exit(bad > 0)
"""


async def shell(sandbox: Sandbox, command: str) -> ToolAnswer:
    """Run a shell command in the repository.

    Args:
        sandbox: of the episode
        command: such as `ls` or `git log`
    """
    return told_shell(await sandbox.shell(command))


async def read_file(sandbox: Sandbox, path: str) -> ToolAnswer:
    """Show a file.

    Args:
        sandbox: of the episode
        path: from the repository's folder
    """
    return told_program(await sandbox.program(_READ, argv=[path]))


async def write_file(sandbox: Sandbox, path: str, text: str) -> ToolAnswer:
    """Write a whole file; its folders are made.

    Args:
        sandbox: of the episode
        path: from the repository's folder
        text: all of the file
    """
    return told_program(await sandbox.program(_WRITE, stdin=json.dumps({"path": path, "text": text}).encode()))


async def edit_file(sandbox: Sandbox, path: str, old: str, new: str) -> ToolAnswer:
    """Replace a piece of a file.

    Args:
        sandbox: of the episode
        path: from the repository's folder
        old: text that stands once in the file
        new: what stands there instead
    """
    asked = {"path": path, "old": old, "new": new}
    return told_program(await sandbox.program(_EDIT, stdin=json.dumps(asked).encode()))


async def run_tests(sandbox: Sandbox) -> ToolAnswer:
    """Run the tests of the repository.

    Args:
        sandbox: of the episode
    """
    return told_program(await sandbox.program(_TESTS))


async def lay_repository(sandbox: Sandbox, task: Task) -> None:
    """Write the files of the task and a `.git` folder with its past."""
    repository = repository_of(task)
    for path, text in repository.files.items():
        await sandbox.write(path, text.encode())
    for path, data in git_folder(repository.history).items():
        await sandbox.write(path, data)


async def collect_tree(sandbox: Sandbox) -> Mapping[str, bytes]:
    """The working folder, bounded: what is no text, too large or one too many is named and left out."""
    files: dict[str, str] = {}
    left_out: list[str] = []
    size = 0
    for path in await sandbox.files():
        if not _is_sayable(path) or _NOT_SOURCE.intersection(path.split("/")):
            continue
        data = await sandbox.read(path, max_bytes=_MAX_FILE_BYTES + 1) if len(files) < _MAX_FILES else None
        text = None if data is None or len(data) > _MAX_FILE_BYTES else _text(data)
        if text is None or size + len(text) > _MAX_TREE_BYTES:
            left_out.append(path)
        else:
            files[path] = text
            size += len(text)
    return {REPOSITORY_TREE: canonical_json({"files": files, "left_out": left_out[:_MAX_FILES]}).encode()}


def repository_environment(
    sandboxes: Sandboxes,
    *,
    limits: ToolLimits,
    system_prompt: str = "",
    demonstrate: DemonstrateFn | None = None,
) -> SandboxEnvironment:
    """Episodes in a repository.

    Args:
        sandboxes: the pool; closed by whoever made it.
        limits: of an episode.
        system_prompt: before the task's messages.
        demonstrate: for a warm start.
    """
    return SandboxEnvironment(
        name="repository",
        tools=[sandbox_tool(tool) for tool in (shell, read_file, write_file, edit_file, run_tests)],
        sandboxes=sandboxes,
        limits=limits,
        furnishing=Furnishing(revision=_REVISION, lay=lay_repository, collect=collect_tree),
        system_prompt=system_prompt,
        demonstrate=demonstrate,
    )


def called(tool: str, **arguments: str) -> DemonstratedTurn:
    """A turn with one call."""
    request = ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments))
    return DemonstratedTurn(text="", calls=(request,))


def repair_turns(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """A `DemonstrateFn`: look at the file, mend it, run the tests, end."""
    fix = repository_of(task).fix
    return (
        called("read_file", path=fix.path),
        called("edit_file", path=fix.path, old=fix.old, new=fix.new),
        called("run_tests"),
        DemonstratedTurn(text="Repaired."),
    )


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_sayable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
