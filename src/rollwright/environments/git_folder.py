"""A `.git` folder made from a list of states, byte by byte: it holds those states and nothing else.

No program makes it, so there is no reflog, no tag, no packed or dangling object, no remote and no trace of a later
state; equal states give equal bytes.
"""

import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence

from rollwright.tasks import Commit

__all__ = ["git_folder"]

_AUTHOR = "A. Developer <developer@example.invalid>"
_BEGAN_AT = 1_700_000_000
_A_DAY = 86_400
_FILE_MODE = 0o100644
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n\tlogallrefupdates = true\n"


def git_folder(history: Sequence[Commit]) -> dict[str, bytes]:
    """Files of a repository on branch `main` whose commits are the given states, the last one checked out.

    Args:
        history: from the first to the last, at least one; paths with forward slashes.

    Returns:
        Path (from `.git/` on) to content.
    """
    objects: dict[str, bytes] = {}
    parent = ""
    for number, commit in enumerate(history):
        tree = _tree({path: text.encode() for path, text in commit.files.items()}, objects)
        stamp = f"{_AUTHOR} {_BEGAN_AT + number * _A_DAY} +0000"
        lines = [f"tree {tree}", *([f"parent {parent}"] if parent else []), f"author {stamp}", f"committer {stamp}"]
        parent = _stored("commit", "\n".join([*lines, "", commit.message, ""]).encode(), objects)
    return {
        ".git/HEAD": b"ref: refs/heads/main\n",
        ".git/config": _CONFIG,
        ".git/refs/heads/main": f"{parent}\n".encode(),
        ".git/index": _index({path: text.encode() for path, text in history[-1].files.items()}),
        **{f".git/objects/{name[:2]}/{name[2:]}": data for name, data in objects.items()},
    }


def _stored(kind: str, data: bytes, objects: dict[str, bytes]) -> str:
    """Keep an object; its name."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    objects[name] = zlib.compress(whole)
    return name


def _tree(files: Mapping[str, bytes], objects: dict[str, bytes]) -> str:
    folders: dict[str, dict[str, bytes]] = {}
    entries: list[tuple[str, str, str]] = []
    for path, data in files.items():
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = data
        else:
            entries.append((head, "100644", _stored("blob", data, objects)))
    entries += [(f"{name}/", "40000", _tree(inner, objects)) for name, inner in folders.items()]
    entries.sort()  # Git orders a folder as if its name ended with a slash.
    rows = [f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(sha1) for name, mode, sha1 in entries]
    return _stored("tree", b"".join(rows), objects)


def _index(files: Mapping[str, bytes]) -> bytes:
    """The list of checked-out files; without times, so that git looks at their content."""
    parts = [struct.pack(">4sLL", b"DIRC", 2, len(files))]
    for path in sorted(files, key=str.encode):
        name, data = path.encode(), files[path]
        sha1 = bytes.fromhex(_stored("blob", data, {}))
        entry = struct.pack(">10L20sH", 0, 0, 0, 0, 0, 0, _FILE_MODE, 0, 0, 0, sha1, min(len(name), 0xFFF)) + name
        parts.append(entry + b"\0" * (8 - len(entry) % 8))
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole, usedforsecurity=False).digest()
