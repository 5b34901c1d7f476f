"""Commands of the program in processes of their own, which end with the ladder however it ends.

Interrupted or terminated, the ladder passes the signal on and waits: each command saves what it has and frees its
folder. Killed, it takes them along (`child`), and the next ladder resumes them.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rollwright.recipes.ladder.errors import LadderError
from rollwright.runtime.errors import RunStoppedError

__all__ = ["Commands", "open_commands"]

_STOPPED = (130, -signal.SIGINT, -signal.SIGTERM)
"""Exit codes of a command that someone stopped, while it listened and before."""
_CHILD = "rollwright.recipes.ladder.child"


@dataclass(slots=True)
class Commands:
    """The commands that run now."""

    running: "set[subprocess.Popen[bytes]]" = field(default_factory=set["subprocess.Popen[bytes]"])
    door: threading.Lock = field(default_factory=threading.Lock)
    is_stopped: bool = False

    def run(self, name: str, words: Sequence[str], log: Path) -> None:
        """One command to its end, its lines appended to a file.

        Args:
            name: of what it is for.
            words: behind `rollwright`, or `fault` and its order.
            log: the file.

        Raises:
            RunStoppedError: where someone stopped it.
            LadderError: where it failed.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as lines:
            code = self._ended(name, words, lines.fileno())
        if code in _STOPPED:
            raise RunStoppedError(f"{name} was stopped; the same command goes on from what it saved.")
        if code != 0:
            last = log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            raise LadderError(f"{name}: `rollwright {words[0]}` ended with exit code {code}; the end of {log}: {last}")

    def all_of(self, jobs: Sequence[Callable[[], None]], *, at_once: int) -> None:
        """Run jobs that run commands, several at once; what the first that failed raises is raised when all ended.

        Args:
            jobs: in the order to begin them.
            at_once: of them.
        """
        with ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="ladder") as threads:
            waiting = [threads.submit(job) for job in jobs]
            try:
                for one in waiting:
                    one.result()
            except BaseException:
                for one in waiting:
                    one.cancel()
                raise

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on to every command that runs, and begin no other."""
        self.is_stopped = True
        for process in tuple(self.running):
            process.send_signal(number)

    def _ended(self, name: str, words: Sequence[str], lines: int) -> int:
        with self.door:
            if self.is_stopped:
                raise RunStoppedError(f"{name} was not begun; the same command goes on from what was saved.")
            command = [sys.executable, "-m", _CHILD, str(os.getpid()), *words]
            # A session of its own: what a terminal sends reaches it through `stop` alone, once.
            process = subprocess.Popen(command, stdout=lines, stderr=subprocess.STDOUT, start_new_session=True)
            self.running.add(process)
        try:
            return process.wait()
        finally:
            self.running.discard(process)


@contextmanager
def open_commands() -> Generator[Commands]:
    """Commands that hear what interrupts and terminates the ladder; only on the main thread."""
    commands = Commands()
    before = {number: signal.signal(number, commands.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield commands
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
