"""One case of the vLLM that runs already, as a side of `benchmarks.paired`; and that vLLM itself.

python -m benchmarks.engine_sides.vllm_relay SOCKET mixed-64
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.engine_sides.cases import Case
from benchmarks.paired import THREADS

__all__ = ["VllmError", "running"]

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0


class VllmError(RuntimeError):
    """vLLM did not start."""


@contextmanager
def running(python: Path, cases: Sequence[Case], threads: int) -> Generator[str]:
    """Start vLLM once, with room for all these cases; the socket at which it serves them one after the other.

    Raises:
        VllmError: with the last line that it wrote.
    """
    context = max([512, *(case.context_tokens for case in cases)])
    slots = max(case.slots for case in cases)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(THREADS, str(threads))}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as log:
        address = Path(folder) / "vllm"
        command = [str(python), "-m", "benchmarks.engine_sides.vllm_cpu", str(address), str(context), str(slots)]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
        try:
            limit = time.monotonic() + START_S
            while not address.exists():
                if process.poll() is not None or time.monotonic() > limit:
                    log.seek(0)
                    said = log.read().strip().splitlines() or ["nothing"]
                    raise VllmError(f"it did not start within {START_S:.0f} s; it said last: {said[-1]}")
                time.sleep(0.2)
            yield str(address)
        finally:
            process.kill()
            process.wait()


def main(address: str, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as lines:
            lines.write(name + "\n")
            lines.flush()
            while answer := lines.readline():
                print(answer, end="", flush=True)
                lines.write(sys.stdin.readline() or '{"do": "end"}\n')
                lines.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
