"""Two or more programs that do the same work, timed in alternation.

Each side is a process of its own, in an interpreter of its own. It gets ready, says what it is, and then does one
repetition a line:

    -> {"ready": true, "about": {"torch": "2.13.0", "threads": 1}}
    <- {"do": "repeat"}
    -> {"wall_s": 1.02, "cpu_s": 1.01, "counts": {"tokens": 3840}}
    <- {"do": "end"}
    -> {"told": {"lengths": [52, 11]}}        (where there is something to tell in the end)

`compare` asks the sides in turns, so that what else the machine does falls on all alike. A ratio is taken of the
two sides of one turn, and told as the median over the turns with its spread. This file imports the standard library
alone: another interpreter that has the repository's root in PYTHONPATH (which `compare` sees to) can
`from benchmarks.paired import serve`.
"""

import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

__all__ = ["Comparison", "Pacer", "PairError", "Ratio", "Timing", "compare", "serve"]

ROOT = Path(__file__).resolve().parents[1]
Clock = Literal["wall_s", "cpu_s"]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
ENDING_S = 120.0
"""That a side has for its end."""


class PairError(RuntimeError):
    """A side could not be started, ended early, or gave no answer in time."""


class Pacer:
    """The worker's side where the steps are called by somebody else, such as a trainer's own loop."""

    def __init__(self, about: Mapping[str, object]) -> None:
        self._about = about
        # Libraries print; the protocol keeps standard output for itself and sends what they say to standard error.
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._began = self._began_cpu = 0.0

    def begin(self) -> bool:
        """Say that all is ready, and wait; False: to end without a repetition."""
        self._say({"ready": True, "about": dict(self._about)})
        return self._wait()

    def ended(self, counts: Mapping[str, float], spent: tuple[float, float] | None = None) -> bool:
        """Say that a repetition ended, and wait for the next; False: there is none, end.

        Args:
            counts: what it came to.
            spent: its seconds by the clock and of the processor, where not all since the question count.
        """
        wall, cpu = spent or (time.perf_counter() - self._began, time.process_time() - self._began_cpu)
        self._say({"wall_s": wall, "cpu_s": cpu, "counts": dict(counts)})
        return self._wait()

    def tell(self, told: Mapping[str, object]) -> None:
        """Say, when it was told to end, what is known of all repetitions together."""
        self._say({"told": dict(told)})

    def _say(self, message: Mapping[str, object]) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def _wait(self) -> bool:
        line = sys.stdin.readline()
        wanted = json.loads(line)["do"] if line.strip() else "end"
        if wanted not in ("repeat", "end"):
            raise PairError(f"a worker is asked to do {wanted!r}; it knows 'repeat' and 'end'.")
        self._began, self._began_cpu = time.perf_counter(), time.process_time()
        return wanted == "repeat"


def serve(repeat: Callable[[], Mapping[str, float]], about: Mapping[str, object]) -> None:
    """Be a worker: call `repeat`, which gives its counts, whenever it is asked for."""
    pacer = Pacer(about)
    goes_on = pacer.begin()
    while goes_on:
        goes_on = pacer.ended(repeat())


@dataclass(frozen=True)
class Timing:
    """One repetition."""

    wall_s: float
    cpu_s: float
    counts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Ratio:
    """How many times `slow` took what `fast` took, turn by turn."""

    value: float
    """The median over the turns."""
    low: float
    lower_quartile: float
    upper_quartile: float
    high: float
    of_medians: float
    """The ratio of the two sides' medians."""

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Comparison:
    """Every repetition of every side, turn by turn."""

    timings: Mapping[str, Sequence[Timing]]
    about: Mapping[str, Mapping[str, Any]]
    told: Mapping[str, Mapping[str, Any]]
    """What a side told in the end of all its repetitions, the warm-up with them."""

    def median(self, side: str, clock: Clock = "wall_s") -> float:
        return statistics.median(self._values(side, clock))

    def mean_count(self, side: str, count: str) -> float:
        """Of what a side counted, such as tokens, its mean over the repetitions."""
        return statistics.fmean(timing.counts[count] for timing in self.timings[side])

    def ratio(self, slow: str, fast: str, clock: Clock = "wall_s") -> Ratio:
        """Seconds of `slow` over those of `fast`: above 1, `fast` is the faster."""
        pairs = list(zip(self._values(slow, clock), self._values(fast, clock), strict=True))
        return ratio_of(pairs)

    def per_count(self, slow: str, fast: str, count: str, clock: Clock = "wall_s") -> Ratio:
        """The ratio of seconds for each thing counted, where the sides do not do equally many in a repetition."""
        each = ([getattr(t, clock) / t.counts[count] for t in self.timings[side]] for side in (slow, fast))
        return ratio_of(list(zip(*each, strict=True)))

    def to_json(self) -> dict[str, Any]:
        sides = {
            name: {
                "about": self.about[name],
                "told": self.told[name],
                "median_wall_s": self.median(name),
                "median_cpu_s": self.median(name, "cpu_s"),
                "wall_s": self._values(name, "wall_s"),
                "cpu_s": self._values(name, "cpu_s"),
                "counts": [dict(t.counts) for t in self.timings[name]],
            }
            for name in self.timings
        }
        return {"sides": sides}

    def _values(self, side: str, clock: Clock) -> list[float]:
        return [getattr(timing, clock) for timing in self.timings[side]]


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of (slow, fast) values, taken turn by turn."""
    ratios = sorted(slow / fast for slow, fast in pairs)
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Ratio(
        value=statistics.median(ratios),
        low=ratios[0],
        lower_quartile=quartiles[0],
        upper_quartile=quartiles[2],
        high=ratios[-1],
        of_medians=medians[0] / medians[1],
    )


def compare(
    sides: Mapping[str, Sequence[str]],
    *,
    repetitions: int = 7,
    warm_up: int = 2,
    threads: int = 1,
    limit_s: float = 1800.0,
) -> Comparison:
    """Start every side, warm it up, and ask the sides in turns.

    Args:
        sides: a name, and the command that starts a worker.
        repetitions: turns that count.
        warm_up: turns before them that do not.
        threads: that the libraries of every side may take, by environment variables.
        limit_s: for a side to get ready, and for one repetition.

    Raises:
        PairError: with the end of what a side wrote to standard error.
    """
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_Worker(name, command, threads)) for name, command in sides.items()}
        about = {name: worker.ready(limit_s) for name, worker in workers.items()}
        timings: dict[str, list[Timing]] = {name: [] for name in sides}
        for turn in range(-warm_up, repetitions):
            order = list(workers) if turn % 2 == 0 else list(reversed(workers))
            for name in order:
                timing = workers[name].repeat(limit_s)
                if turn >= 0:
                    timings[name].append(timing)
        told = {name: worker.end() for name, worker in workers.items()}
    return Comparison(timings, about, told)


class _Worker:
    """A side's process, seen from `compare`."""

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        self._name, self._command = name, list(command)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._environment = {**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, str(threads))}
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> "_Worker":
        self._errors: TextIO = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                cwd=ROOT,
                env=self._environment,
            )
        except OSError as error:
            self._errors.close()
            raise PairError(f"{self._name} cannot be started: {error}; its command is {self._command}.") from error
        threading.Thread(target=self._read, name=f"lines of {self._name}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with self._process.stdin, self._errors:
            pass

    def ready(self, limit_s: float) -> Mapping[str, Any]:
        return self._answer(limit_s)["about"]

    def repeat(self, limit_s: float) -> Timing:
        self._ask("repeat")
        answer = self._answer(limit_s)
        return Timing(answer["wall_s"], answer["cpu_s"], answer["counts"])

    def end(self) -> Mapping[str, Any]:
        """What it tells before its end, if anything."""
        self._ask("end")
        try:
            line = self._lines.get(timeout=ENDING_S)
            self._process.wait(ENDING_S)
        except (queue.Empty, subprocess.TimeoutExpired):
            self._process.kill()
            return {}
        return json.loads(line)["told"] if line else {}

    def _ask(self, what: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PairError(self._fault("ended before it was told to")) from error

    def _answer(self, limit_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            raise PairError(self._fault(f"gave no answer in {limit_s:.0f} s")) from None
        if not line:
            self._process.wait(60)
            raise PairError(self._fault(f"ended with code {self._process.returncode}"))
        return json.loads(line)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._lines.put(line)
        self._lines.put("")

    def _fault(self, what: str) -> str:
        self._errors.seek(0)
        said = self._errors.read()[-3000:].strip()
        return f"{self._name} {what}; its command is {self._command}. It said last:\n{said}"
