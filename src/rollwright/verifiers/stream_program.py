"""The program that runs a solution inside a sandbox with its output in a file: `SOLUTION OUTPUT MEMORY_BYTES`.

A file, since the sandbox keeps only head and tail of what a program prints. It imports nothing of ours.
"""

import os
import resource
import runpy
import sys

__all__: list[str] = []


def _main() -> None:
    solution, output, memory = sys.argv[-3:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(descriptor, 1)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.argv = [solution]
    try:
        runpy.run_path(solution, run_name="__main__")
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
