"""What both sides' processes share: the seconds between two steps of a run that does not stop between them.

A loop that records while it goes on sampling has no moment at which one step is over and the next not begun. So a
repetition is a run of its own, and what counts are the seconds from the end of its first step to that of a later one,
each told when all of it was done. The standard library alone, for both interpreters; the lines are those of
`benchmarks.paired`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["Span", "Stamps", "own_output", "serve_spans"]


@dataclass(frozen=True)
class Span:
    """What a repetition came to."""

    wall_s: float
    cpu_s: float
    counts: Mapping[str, float]


@dataclass
class Stamps:
    """When steps ended, and what each counted."""

    wall_s: list[float] = field(default_factory=list[float])
    cpu_s: list[float] = field(default_factory=list[float])
    counts: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    began: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self.began = (time.perf_counter(), time.process_time())

    def mark(self, counts: Mapping[str, float]) -> None:
        self.wall_s.append(time.perf_counter() - self.began[0])
        self.cpu_s.append(time.process_time() - self.began[1])
        self.counts.append(dict(counts))

    def span(self, steps: int) -> Span:
        """Of the steps behind the first: so many of them."""
        counted = self.counts[1 : steps + 1]
        sums = {name: sum(one[name] for one in counted) for name in counted[0]}
        return Span(self.wall_s[steps] - self.wall_s[0], self.cpu_s[steps] - self.cpu_s[0], sums)


def own_output() -> TextIO:
    """Keep standard output for the protocol; what libraries print goes to standard error."""
    kept = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return kept


def serve_spans(repeat: Callable[[int], Span], about: Mapping[str, object]) -> None:
    """Be a worker: `repeat` is given the number of the repetition, from 0."""
    out = own_output()
    number = 0
    print(json.dumps({"ready": True, "about": dict(about)}), file=out, flush=True)
    while (line := sys.stdin.readline()).strip() and json.loads(line)["do"] == "repeat":
        span = repeat(number)
        answer = {"wall_s": span.wall_s, "cpu_s": span.cpu_s, "counts": dict(span.counts)}
        print(json.dumps(answer), file=out, flush=True)
        number += 1
