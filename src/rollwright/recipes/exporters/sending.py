"""A client on a thread of its own, behind a queue with an end: a run never waits for a service.

    run ──► queue (bounded; what finds it full is dropped and counted) ──► thread: begin, log, log, … end ──► service

The thread is a daemon: a client that hangs is left behind when the run ends, after a bounded wait.
"""

import queue
import threading
from dataclasses import dataclass

from rollwright.recipes.exporters.client import ExportClient, ExportedRun, ExportRecord, MissingClientError

__all__ = ["SendLimits", "Sender"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLimits:
    """What a client is allowed."""

    queued: int = 1024
    """Records that wait; what comes on top is dropped."""
    failures: int = 20
    """Records in a row that a client may fail to take until it is given up."""
    close_s: float = 15.0
    """How long the end of a run waits for what is queued."""


class Sender:
    """Hands records to one client; every method returns at once, `close` after `close_s` at the latest."""

    def __init__(self, client: ExportClient, limits: SendLimits | None = None) -> None:
        """Nothing is opened yet."""
        self._client = client
        self._limits = limits or SendLimits()
        self._queue: queue.Queue[ExportRecord] = queue.Queue(self._limits.queued)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._has_complained = False
        self._num_offered = 0
        self._num_sent = 0
        self._is_ending = threading.Event()

    def begin(self, run: ExportedRun) -> None:
        """Let the thread open the run."""
        self._thread = threading.Thread(
            target=self._work, args=(run,), name=f"exporter {self._client.name}", daemon=True
        )
        self._thread.start()

    def offer(self, record: ExportRecord) -> None:
        """Queue a record, or drop it where there is no room."""
        self._num_offered += 1
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._complain(f"{self._client.name} takes records more slowly than the run makes them; some are dropped")

    def complaints(self) -> tuple[str, ...]:
        """Sentences for a person that were not told yet."""
        with self._lock:
            said, self._said = tuple(self._said), []
        return said

    def close(self) -> None:
        """Wait a while for what is queued; what was not taken is counted among the complaints."""
        if self._thread is None:
            return
        self._is_ending.set()
        self._thread.join(self._limits.close_s)
        if self._thread.is_alive():
            self._tell(f"{self._client.name} did not end within {self._limits.close_s:g} s and is left behind")
        lost = self._num_offered - self._num_sent
        if lost:
            self._tell(
                f"{self._client.name} did not take {lost} of {self._num_offered} records; the run's folder has them all"
            )

    def _work(self, run: ExportedRun) -> None:
        try:
            self._client.begin(run)
        except MissingClientError as error:
            self._complain(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a client may raise anything, and the run goes on
            self._complain(f"{self._client.name} cannot be reached, and nothing is sent there: {_said(error)}")
            return
        if self._send_all():
            try:
                self._client.end()
            except Exception as error:  # noqa: BLE001 - as above
                self._complain(f"{self._client.name} did not end well: {_said(error)}")

    def _send_all(self) -> bool:
        """Hand over until the run ends; False where the client was given up."""
        failures = 0
        while True:
            try:
                # Short, so that the end of a run is heard; it waits for nothing while there is work.
                record = self._queue.get(timeout=0.2)
            except queue.Empty:
                if self._is_ending.is_set():
                    return True
                continue
            try:
                self._client.log(record)
            except Exception as error:  # noqa: BLE001 - as above
                failures += 1
                self._complain(f"{self._client.name} did not take a record: {_said(error)}")
                if failures >= self._limits.failures:
                    self._tell(f"{self._client.name} failed {failures} times in a row and is asked no more")
                    return False
            else:
                failures = 0
                self._num_sent += 1

    def _complain(self, sentence: str) -> None:
        """Once for a client: a service that is gone is gone for every record."""
        with self._lock:
            if not self._has_complained:
                self._has_complained = True
                self._said.append(sentence)

    def _tell(self, sentence: str) -> None:
        with self._lock:
            self._said.append(sentence)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
