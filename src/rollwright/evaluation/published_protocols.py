"""How published benchmarks are run: budgets, samples, aggregation and verifier of each, frozen as entries.

The benchmarks themselves are not here. An entry scores rows that are there: of a file of your own, or of a sample made
for the purpose. Numbers under two entries with different digests do not compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record import Verdict, digest
from rollwright.statistics import Interval, clustered_interval, pass_at_k, task_means, wilson_interval

__all__ = ["PUBLISHED_PROTOCOLS", "ProtocolScore", "PublishedProtocol", "score_protocol"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedProtocol:
    """One benchmark under one way of running it."""

    name: str
    benchmark: str
    temperature: float
    top_p: float
    max_tokens: int
    """The cap of one completion, reasoning included; a completion that reaches it without an answer is wrong."""
    samples: int
    """Attempts at each task: the n of avg@n."""
    pass_k: tuple[int, ...]
    """The k of each pass@k, reported apart from avg@n; at most `samples`."""
    verifier: str
    """The name of a verifier that ships."""
    answer_form: Literal["boxed", "marker", "code"]
    dated: bool = False
    """Tasks have dates: the window that counts is part of what is reported."""

    def __post_init__(self) -> None:
        """Refuse an entry that nothing could measure."""
        if self.samples < 1 or any(not 1 <= k <= self.samples for k in self.pass_k):
            raise ValueError(f"{self.name}: samples is at least 1 and every k is in 1 to {self.samples}")
        if self.temperature == 0 and self.samples > 1:
            raise ValueError(f"{self.name}: {self.samples} greedy samples are one; raise the temperature")

    def frozen(self, *, verifier_revision: str, window: str = "") -> str:
        """The digest under which numbers compare.

        Args:
            verifier_revision: of the verifier that judged.
            window: the days that count, for a benchmark with dates.

        Raises:
            ValueError: for a window where there are no dates, or none where there are.
        """
        if self.dated != bool(window):
            raise ValueError(f"{self.name}: {'name the window of dates' if self.dated else 'its tasks have no dates'}")
        fields = [
            self.name, self.benchmark, self.temperature, self.top_p, self.max_tokens, self.samples, self.pass_k,
            self.verifier, self.answer_form, verifier_revision, window,
        ]  # fmt: skip
        return digest(fields)[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolScore:
    """What an entry measured."""

    protocol: str
    frozen: str
    """The digest of the entry with the verifier's revision and the window."""
    average: float | None
    """avg@n: the mean over tasks of each task's share of right samples; None where nothing was scored."""
    interval: Interval | None
    pass_at: Mapping[int, float | None]
    """By k, over the tasks with at least so many scored samples."""
    num_tasks: int
    num_unscored: int
    """Samples without a number; left out of every mean."""


def score_protocol(
    entry: PublishedProtocol, verdicts: Mapping[str, Sequence[Verdict]], *, window: str = "", level: float = 0.95
) -> ProtocolScore:
    """Aggregate the verdicts on all samples as the entry says.

    Args:
        entry: of the benchmark.
        verdicts: by task, one for each sample.
        window: the days that count, for a benchmark with dates.
        level: of the interval.

    Raises:
        ValueError: for another number of samples, another verifier, or verdicts of several revisions.
    """
    every = [verdict for listed in verdicts.values() for verdict in listed]
    wrong = [task for task, listed in verdicts.items() if len(listed) != entry.samples]
    if not every or wrong:
        raise ValueError(
            f"{entry.name} takes {entry.samples} samples of each task; {wrong[:3] or 'no task'} has others"
        )
    named = {(verdict.verifier, verdict.revision) for verdict in every}
    if len(named) != 1 or every[0].verifier != entry.verifier:
        raise ValueError(
            f"{entry.name} is judged by one revision of {entry.verifier}; the verdicts are of {sorted(named)}"
        )
    hits = {
        task: [v.outcome >= 1.0 for v in listed if not isinstance(v.outcome, str)] for task, listed in verdicts.items()
    }
    scored = {task: found for task, found in hits.items() if found}
    means = task_means([[float(hit) for hit in found] for found in scored.values()]) if scored else None
    pass_at: dict[int, float | None] = {}
    for k in entry.pass_k:
        values = [pass_at_k(len(found), sum(found), k) for found in scored.values() if len(found) >= k]
        known = [value for value in values if value is not None]
        pass_at[k] = sum(known) / len(known) if known else None
    return ProtocolScore(
        protocol=entry.name,
        frozen=entry.frozen(verifier_revision=every[0].revision, window=window),
        average=None if means is None else float(means.mean()),
        interval=None if means is None else _interval(means, level),
        pass_at=MappingProxyType(pass_at),
        num_tasks=len(scored),
        num_unscored=len(every) - sum(map(len, hits.values())),
    )


def _interval(means: NDArray[np.float64], level: float) -> Interval | None:
    """Clustered by task; where every task is all right or all wrong, that has no width, and Wilson's stands instead."""
    average = float(means.mean())
    if average in (0.0, 1.0):
        return wilson_interval(round(average * len(means)), len(means), level=level)
    return clustered_interval(means, level=level)


_MATH = PublishedProtocol(
    name="aime-2024",
    benchmark="AIME 2024",
    temperature=0.6,
    top_p=0.95,
    max_tokens=32_768,
    samples=32,
    pass_k=(1, 8, 32),
    verifier="math",
    answer_form="boxed",
)
_CHOICE = replace(
    _MATH,
    name="gpqa-diamond",
    benchmark="GPQA-Diamond",
    samples=8,
    pass_k=(1, 8),
    verifier="choice",
    answer_form="marker",
)
_CODE = replace(
    _MATH, name="livecodebench", benchmark="LiveCodeBench", samples=4, pass_k=(1, 4), verifier="unit_tests",
    answer_form="code", dated=True,
)  # fmt: skip
PUBLISHED_PROTOCOLS: Mapping[str, PublishedProtocol] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            _MATH,
            replace(_MATH, name="aime-2025", benchmark="AIME 2025"),
            replace(_MATH, name="beyond-aime", benchmark="BeyondAIME", samples=8, pass_k=(1, 8)),
            replace(
                _MATH, name="imo-answer-bench", benchmark="IMOAnswerBench", samples=8, pass_k=(1, 8), max_tokens=65_536
            ),
            replace(_MATH, name="math-500", benchmark="MATH-500", samples=4, pass_k=(1, 4)),
            replace(_MATH, name="olympiad-bench", benchmark="OlympiadBench", samples=4, pass_k=(1, 4)),
            replace(
                _MATH,
                name="gsm8k",
                benchmark="GSM8K",
                samples=1,
                pass_k=(1,),
                temperature=0.0,
                top_p=1.0,
                max_tokens=4096,
            ),
            replace(
                _CHOICE, name="mmlu-stem", benchmark="MMLU-STEM", samples=1, pass_k=(1,), temperature=0.0, top_p=1.0
            ),
            _CHOICE,
            _CODE,
        )
    }
)
"""Our frozen reading of each; reports differ in budgets, so a report is compared only where it states the same."""
