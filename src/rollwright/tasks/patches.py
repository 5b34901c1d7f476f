"""Unified differences: made from two trees of files, and applied to one, without fuzz."""

import difflib
import re
from collections.abc import Mapping, Sequence

from rollwright.tasks.errors import TaskError

__all__ = ["PatchError", "apply_patch", "make_patch"]

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_FILE = "/dev/null"
_NO_NEWLINE = "\\ No newline at end of file"


class PatchError(TaskError):
    """A patch that cannot be read or does not fit the files."""


def make_patch(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The difference of two trees, in the form that git writes."""
    parts: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        parts.append(f"diff --git a/{path} b/{path}\n")
        changes = difflib.unified_diff(
            _kept_lines(old or ""),
            _kept_lines(new or ""),
            fromfile=_NO_FILE if old is None else f"a/{path}",
            tofile=_NO_FILE if new is None else f"b/{path}",
        )
        for line in changes:
            parts.append(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n")
    return "".join(parts)


def apply_patch(files: Mapping[str, str], patch: str) -> dict[str, str]:
    """The files after a patch. Every line of context must stand where the patch says.

    Args:
        files: path to text.
        patch: a unified difference of any number of files; lines that belong to no file are passed over.

    Raises:
        PatchError: where it does not fit; nothing is applied then.
    """
    changed = dict(files)
    lines = patch.split("\n")
    at, old_path = 0, ""
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("--- "):
            old_path = _path(line[4:], "a/")
        elif line.startswith("+++ "):
            new_path = _path(line[4:], "b/")
            source = "" if old_path == _NO_FILE else changed.get(old_path)
            if source is None:
                raise PatchError(f"the patch changes {old_path}, which there is not")
            text, at = _patched(_kept_lines(source), lines, at, old_path)
            changed.pop(old_path, None)
            if new_path != _NO_FILE:
                changed[new_path] = text
    return changed


def _patched(source: Sequence[str], lines: Sequence[str], at: int, path: str) -> tuple[str, int]:
    """The new text of a file, and the place behind its hunks."""
    result: list[str] = []
    taken = 0
    while at < len(lines) and (head := _HUNK.match(lines[at])):
        old_count, new_count = (1 if head[n] is None else int(head[n]) for n in (2, 4))
        start = int(head[1]) - (1 if old_count else 0)
        if not taken <= start <= len(source):
            raise PatchError(f"{path}: the hunk at line {head[1]} is out of place")
        result += source[taken:start]
        taken = start
        at += 1
        while old_count > 0 or new_count > 0:
            if at >= len(lines):
                raise PatchError(f"{path}: the patch ends within a hunk")
            mark, text = lines[at][:1] or " ", lines[at][1:]
            has_newline = at + 1 >= len(lines) or lines[at + 1] != _NO_NEWLINE
            kept = text + ("\n" if has_newline else "")
            if mark not in " +-":
                raise PatchError(f"{path}: a hunk holds a line that begins with {mark!r}")
            if mark != "+":
                if taken >= len(source) or source[taken].rstrip("\n") != text:
                    raise PatchError(f"{path}: line {taken + 1} is not what the patch expects")
                taken, old_count = taken + 1, old_count - 1
            if mark != "-":
                result.append(kept)
                new_count -= 1
            at += 1 if has_newline else 2
        if old_count < 0 or new_count < 0:
            raise PatchError(f"{path}: a hunk is longer than it says")
    return "".join([*result, *source[taken:]]), at


def _path(text: str, prefix: str) -> str:
    path = text.split("\t")[0].strip()
    if path == _NO_FILE:
        return path
    path = path.removeprefix(prefix)
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise PatchError(f"{path!r} is no path inside the repository")
    return path


def _kept_lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
