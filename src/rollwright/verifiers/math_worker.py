"""The program that runs math-verify: one JSON line in, one out. Started by `math_pool`, imported by nobody.

It may die at any request: it gives itself a CPU time and a memory limit, since math-verify has none that hold. It
imports nothing of ours, so that it starts alone, from its path, in an isolated interpreter.
"""

import functools
import importlib
import json
import os
import re
import resource
import signal
import sys
from typing import Protocol, TextIO, cast

_SPELLINGS = (
    (re.compile(r"(?<![A-Za-z\\])oo(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"(?<=[)\]}])\s*U\s*(?=[(\[\\{])"), r" \\cup "),
    (re.compile(r"(?<=[A-Za-z])\s+in\s+(?=[\\{(\[])"), r" \\in "),
)


class _MathVerify(Protocol):
    """What is used of math_verify, whose own types leave out that a timeout may be None."""

    def LatexExtractionConfig(self) -> object: ...  # noqa: N802 - its name there
    def parse(self, text: str, configs: list[object], *, parsing_timeout: None) -> list[object]: ...
    def verify(self, gold: list[object], target: list[object], *, timeout_seconds: None) -> bool: ...


def main() -> None:
    """Answer requests until the input ends."""
    cpu_s, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Nothing that a library prints can stand among the replies.
    library = cast("_MathVerify", importlib.import_module("math_verify"))
    _compare(library, "x+1", "1+x")  # Fills caches and late imports, so that no request pays for them.
    _reply(replies, "ready")
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # At its end the kernel ends this process.
        try:
            status = _compare(library, request["gold"], request["answer"])
        except MemoryError:
            status = "out_of_memory"
        except Exception:  # noqa: BLE001 - whatever sympy raises on an odd answer
            status = "failed"
        signal.setitimer(signal.ITIMER_PROF, 0)
        _reply(replies, status)


def _compare(library: _MathVerify, gold: str, answer: str | None) -> str:
    right = _parsed(library, _spelled(gold))
    if right is None:
        return "bad_gold"
    if answer is None:
        return "good_gold"
    if _spelled(answer) == _spelled(gold):
        return "equal"
    given = _parsed(library, _spelled(answer))
    if given is None:
        return "unparsable"
    return "equal" if library.verify(right, given, timeout_seconds=None) else "different"


@functools.lru_cache(maxsize=4096)
def _parsed(library: _MathVerify, text: str) -> list[object] | None:
    """The expression alone: the text that math-verify gives beside it would also match as text.

    Parsing takes most of the time, and all attempts at a task have one gold answer.
    """
    found = library.parse(f"${text}$", [library.LatexExtractionConfig()], parsing_timeout=None)
    return found[:1] if found and not isinstance(found[0], str) else None


def _spelled(text: str) -> str:
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


def _reply(replies: TextIO, status: str) -> None:
    replies.write(json.dumps({"status": status}) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
