"""The program that runs someone else's scorer: one JSON line in, one out. Started by `scorer_pool`, imported by nobody.

It may die at any request: it gives itself limits of CPU time and memory, since the code that it runs has none.
"""

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import TextIO, cast

_Answer = Callable[[object], object]


def main() -> None:
    """Prepare once, then answer requests until the input ends."""
    start = json.loads(sys.stdin.readline())
    memory_bytes = int(start["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Nothing that a library prints can stand among the replies.
    sys.path[:] = start["paths"]
    module, _, name = str(start["target"]).partition(":")
    try:
        prepare = cast("Callable[[object], _Answer]", getattr(importlib.import_module(module), name))
        answer = prepare(start["settings"])
    except Exception as error:  # noqa: BLE001 - whatever a package raises when it is loaded
        _reply(replies, {"status": "failed", "value": _said(error)})
        return
    _reply(replies, {"status": "ready", "value": None})
    for line in sys.stdin:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, float(asked["cpu_s"]))  # At its end the kernel ends this process.
        try:
            reply: dict[str, object] = {"status": "given", "value": answer(asked["request"])}
        except MemoryError:
            reply = {"status": "out_of_memory", "value": None}
        except Exception as error:  # noqa: BLE001 - whatever a scorer raises on an odd answer
            reply = {"status": "failed", "value": _said(error)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        _reply(replies, reply)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _reply(replies: TextIO, reply: dict[str, object]) -> None:
    try:
        line = json.dumps(reply, allow_nan=False)
    except (TypeError, ValueError) as error:
        line = json.dumps({"status": "failed", "value": _said(error)})
    replies.write(line + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
