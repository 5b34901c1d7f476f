"""The pool's side of the starter: orders go out, nothing is waited for."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rollwright.sandboxes.errors import SandboxError

__all__ = ["StarterProcess", "Start"]

SCRIPT = Path(__file__).parent / "starter.py"
END_S = 10.0


@dataclass(frozen=True, slots=True)
class Start:
    """An order to start a sandbox, and this process's ends of what connects them."""

    sandbox: int
    channel: socket.socket
    """Requests and answers."""
    gone: int
    """Ends when nothing of the sandbox is left; before that, what its starter has to complain of."""


class StarterProcess:
    """The process that starts sandboxes; used from any thread."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SCRIPT), str(theirs.fileno())],
                env={},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._orders = ours
        self._lock = threading.Lock()
        self._num_started = 0
        self._order({"order": "settings", **settings}, [])

    @property
    def pid(self) -> int:
        """Of the starter."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it still takes orders."""
        with self._lock:
            return self._process.poll() is None

    def start(self, slot: int, folder: str) -> Start:
        """Order a sandbox; it says itself when it is ready."""
        ours, theirs = socket.socketpair()
        gone, gone_end = os.pipe()
        try:
            with self._lock:
                self._num_started += 1
                sandbox = self._num_started
            order = {"order": "start", "sandbox": sandbox, "slot": slot, "folder": folder}
            self._order(order, [theirs.fileno(), gone_end])
        except BaseException:
            ours.close()
            os.close(gone)
            raise
        finally:
            theirs.close()
            os.close(gone_end)
        ours.settimeout(0)
        os.set_blocking(gone, False)
        return Start(sandbox, ours, gone)

    def end(self, sandbox: int) -> None:
        """Order the end of a sandbox; one that has ended is no error."""
        self._order({"order": "end", "sandbox": sandbox}, [])

    def close(self) -> None:
        """End all sandboxes and the starter, and wait for it."""
        self._orders.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _order(self, message: Mapping[str, object], descriptors: list[int]) -> None:
        try:
            with self._lock:
                socket.send_fds(self._orders, [json.dumps(message).encode()], descriptors)
        except OSError as error:
            raise SandboxError(f"the process that starts sandboxes is gone ({error}); open the pool anew") from error
