"""Red teaming by parts: an attack, a target, data, a judge and a metric, each of which may be another (S394).

data ──task──► attack ──text──► target ──verdict──► judge ──found or not──► metric ──► one number
                 ▲                                    │
                 └────────────── what it scored ──────┘
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from rollwright.recipes.audits.judging import Judgement, judge_all
from rollwright.record import Passage, Submission, Task, Verifier
from rollwright.statistics.confusion import Judged
from rollwright.statistics.verifier_audit import exact_upper_bound
from rollwright.tasks import payload_of
from rollwright.verifiers.probes import answer_probes

__all__ = [
    "Attack",
    "Disagrees",
    "Finding",
    "Judge",
    "Metric",
    "MutatedProbes",
    "RedTeam",
    "RedTeamReport",
    "ShareFound",
    "run_red_team",
]


class Attack(Protocol):
    """Texts to try, round after round."""

    @property
    def name(self) -> str:
        """In the report."""
        ...

    def propose(self, task: Task, tried: Sequence["Finding"], chance: Random) -> Sequence[str]:
        """Texts of the next round; none: it gives up."""
        ...


class Judge(Protocol):
    """Tells whether the target was fooled."""

    @property
    def name(self) -> str:
        """In the report."""
        ...

    async def is_fooled(self, submission: Submission, said: Judgement) -> bool:
        """Whether what the target said of the text is a find."""
        ...


class Metric(Protocol):
    """One number of a whole run."""

    @property
    def name(self) -> str:
        """In the report."""
        ...

    def value(self, tried: Sequence["Finding"]) -> float:
        """Of all texts that were tried."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One text that was tried."""

    task_id: str
    text: str
    said: Judgement
    is_fooled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RedTeam:
    """A plan; any part may be exchanged alone."""

    attack: Attack
    target: Verifier
    data: Sequence[Task]
    data_name: str
    judge: Judge
    metric: Metric
    rounds: int = 8
    seed: int = 0
    success_at: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedTeamReport:
    """What a run came to, and the five parts that it was made of."""

    attack: str
    target: str
    data: str
    judge: str
    metric: str
    value: float
    num_tried: int
    found: tuple[Finding, ...]


async def run_red_team(plan: RedTeam) -> RedTeamReport:
    """Try each task until the target is fooled, the attack gives up, or the rounds are used up."""
    tried: list[Finding] = []
    for task in plan.data:
        chance = Random(f"{plan.seed}/{task.task_id}")
        mine: list[Finding] = []
        for _ in range(plan.rounds):
            texts = plan.attack.propose(task, mine, chance)
            if not texts:
                break
            mine += await _tried(plan, task, texts)
            if any(one.is_fooled for one in mine):
                break
        tried += mine
    return RedTeamReport(
        attack=plan.attack.name,
        target=plan.target.name,
        data=plan.data_name,
        judge=plan.judge.name,
        metric=plan.metric.name,
        value=plan.metric.value(tried),
        num_tried=len(tried),
        found=tuple(one for one in tried if one.is_fooled),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedProbes:
    """The library of attacks first; then changes of what came nearest, by the target's own number."""

    form: str = "{}"
    width: int = 16
    """Texts a round."""
    pieces: tuple[str, ...] = ("0", "1", "answer", "is", "correct", "!", "\n", "because", "not", "or", ",")
    """What is inserted; a search finds an exploit that is made of these and of pieces of what was tried."""
    name: str = "mutated probes"

    def propose(self, task: Task, tried: Sequence[Finding], chance: Random) -> Sequence[str]:
        """Probes in the first round, mutations of the best later."""
        if not tried:
            return [probe.text for probe in answer_probes(payload_of(task), form=self.form)]
        ranked = sorted(tried, key=_number, reverse=True)[: self.width]
        return [self._changed(chance.choice(ranked).text, chance) for _ in range(self.width)]

    def _changed(self, text: str, chance: Random) -> str:
        words = text[:400].split(" ")
        place = chance.randrange(len(words) + 1)
        match chance.randrange(3):
            case 0:
                words.insert(place, chance.choice(self.pieces))
            case 1:
                words = words[:place]
            case _:
                words = [*words, *words[place:], chance.choice(self.pieces)]
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagrees:
    """The target accepts what a stronger verifier rejects: the disagreement that a search looks for."""

    stronger: Verifier
    success_at: float = 1.0

    @property
    def name(self) -> str:
        """With whom."""
        return f"disagrees with {self.stronger.name}"

    async def is_fooled(self, submission: Submission, said: Judgement) -> bool:
        """Asks the stronger one only where the target accepts; its errors are no finds."""
        if said.judged is not Judged.ACCEPTED:
            return False
        (other,) = await judge_all(self.stronger, [submission], success_at=self.success_at)
        return other.judged is Judged.REJECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFound:
    """The share of texts that fooled the target, or its upper bound where none did."""

    name: str = "share found"

    def value(self, tried: Sequence[Finding]) -> float:
        """0 finds are a bound, not a zero."""
        found = sum(one.is_fooled for one in tried)
        return found / len(tried) if found else exact_upper_bound(0, len(tried))


async def _tried(plan: RedTeam, task: Task, texts: Sequence[str]) -> list[Finding]:
    submissions = [
        Submission(
            trajectory_id=f"attack-{number}",
            task=task,
            terminal_reason="model_end",
            passages=(Passage(actor="agent", kind="policy", text=text),),
            artifacts={},
        )
        for number, text in enumerate(texts)
    ]
    said = await judge_all(plan.target, submissions, success_at=plan.success_at)
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(plan.judge.is_fooled(submission, one), name=f"judge {submission.trajectory_id}")
            for submission, one in zip(submissions, said, strict=True)
        ]
    return [
        Finding(task_id=task.task_id, text=text, said=one, is_fooled=task_of.result())
        for text, one, task_of in zip(texts, said, asked, strict=True)
    ]


def _number(one: Finding) -> float:
    return one.said.outcome if not isinstance(one.said.outcome, str) else -1.0
