"""Starts a service, waits until it serves, and ends it; what it wrote last is told where it fails."""

import json
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from rollwright.engines.errors import EngineLostError

__all__ = ["ServiceProcess", "start_service"]

_STOP_S = 10.0
_LOOK_S = 0.1
_TOLD_LINES = 3


class ServiceProcess:
    """A service with its private folder; it ends with this process, or when `stop` is called."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, log: IO[str], key: str) -> None:
        """Store a started process."""
        self._process = process
        self._folder = folder
        self._log = log
        self._key = key

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def connect(self, start_s: float) -> tuple[socket.socket, dict[str, object]]:
        """Wait until it listens, and show the key.

        Args:
            start_s: how long it may take.

        Returns:
            The connection, and what the service says of itself.

        Raises:
            EngineLostError: with what it wrote last, when it ended or took too long.
        """
        until = time.monotonic() + start_s
        address = self._folder / "socket"
        while not address.exists():
            if self._process.poll() is not None:
                raise EngineLostError(f"the service ended before it served; it said last: {self.last_words()}")
            if time.monotonic() > until:
                raise EngineLostError(f"the service did not start within {start_s:g} s; it said: {self.last_words()}")
            time.sleep(_LOOK_S)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(address))
        connection.sendall(json.dumps({"key": self._key}).encode() + b"\n")
        with connection.makefile("rb") as lines:
            answer = json.loads(lines.readline() or b"{}")
        if "hello" not in answer:
            raise EngineLostError(f"the service refused the connection: {answer.get('refused', 'it said nothing')}")
        return connection, answer["hello"]

    def last_words(self) -> str:
        """The last lines of its log."""
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().splitlines() if line.strip()]
        return " | ".join(lines[-_TOLD_LINES:]) or "nothing"

    def stop(self) -> None:
        """End it: by the end of its input, then by force; its folder goes with it."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def start_service(python: Path, script: Path, settings: Mapping[str, object]) -> ServiceProcess:
    """Start a service's script by an interpreter of its own environment.

    Args:
        python: the interpreter.
        script: imports nothing of this package.
        settings: told to it, with the socket's path and a key.

    Raises:
        EngineLostError: where there is no such interpreter.
    """
    if not python.is_file():
        raise EngineLostError(f"there is no interpreter {python}; `make setup-vllm` makes vLLM's environment.")
    folder = Path(tempfile.mkdtemp(prefix="rollwright-"))
    log = tempfile.TemporaryFile("w+", errors="replace", dir=folder)  # noqa: SIM115 - closed by `stop`
    key = secrets.token_hex(16)
    # -I: neither the script's folder nor PYTHONPATH lead it to modules of this package.
    command = [str(python.absolute()), "-I", str(script)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, cwd=folder)
    assert process.stdin is not None
    told = {**settings, "socket": str(folder / "socket"), "key": key}
    try:
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # It has ended; `connect` tells why.
    return ServiceProcess(process, folder, log, key)
