"""Small training problems for an agent that trains: a bandit with hidden payoffs, and a trainer whose settings matter.

The trainer is a softmax policy over the arms, moved by sampled rewards (REINFORCE). A rate that is too low does not
arrive within the budget, one that is too high settles on the arm that happened to pay first. Equal settings and seed
give an equal policy, so a grader trains again instead of believing a report.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from rollwright.record import Message, Task, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload, payload_of
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["Bandit", "TrainedPolicy", "TrainingSettings", "bandit_of", "bandit_source", "train_bandit"]

_BUILDER = 1
_ARMS = 6
_RATES = (0.001, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandit:
    """A problem."""

    chances: tuple[float, ...]
    """Of each arm to pay 1; hidden from whoever trains."""
    budget: int
    """Sampled steps over all runs."""
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What a run is started with."""

    rate: float
    steps: int
    baseline: bool
    """Whether the mean reward so far is taken off."""

    def __post_init__(self) -> None:
        """Refuse settings that train nothing."""
        if not (_RATES[0] <= self.rate <= _RATES[1]) or self.steps < 1:
            raise TaskError(f"rate={self.rate:g}, steps={self.steps}: a rate is 0.001 to 10, steps are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """What a run ends with."""

    shares: tuple[float, ...]
    """Of the arms, summing to 1."""
    curve: tuple[float, ...]
    """Mean sampled reward of each tenth of the run."""

    def value(self, bandit: Bandit) -> float:
        """Expected reward, as a share of that of the best arm."""
        return sum(s * c for s, c in zip(self.shares, bandit.chances, strict=True)) / max(bandit.chances)


def train_bandit(bandit: Bandit, settings: TrainingSettings, *, number: int) -> TrainedPolicy:
    """Train from scratch.

    Args:
        bandit: the problem.
        settings: of the run.
        number: of the run, part of its seed.
    """
    chance = Random(seed_of(bandit.seed, "bandit", number))
    logits, rewards = [0.0] * len(bandit.chances), list[float]()
    for step in range(settings.steps):
        shares = _softmax(logits)
        arm = chance.choices(range(len(shares)), shares)[0]
        reward = float(chance.random() < bandit.chances[arm])
        advantage = reward - (sum(rewards) / step if settings.baseline and step else 0.0)
        rewards.append(reward)
        for place, share in enumerate(shares):
            logits[place] += settings.rate * advantage * ((place == arm) - share)
    tenth = max(1, len(rewards) // 10)
    parts = [rewards[start : start + tenth] for start in range(0, tenth * 10, tenth)]
    curve = tuple(round(sum(part) / len(part), 3) for part in parts if part)
    return TrainedPolicy(shares=tuple(_softmax(logits)), curve=curve)


def bandit_source(sizes: SplitSizes, *, budget: int, seed: int) -> TaskSource:
    """Problems of six arms.

    Args:
        sizes: distinct tasks wanted.
        budget: sampled steps over all runs of an episode.
        seed: of the payoffs.
    """
    revision = f"bandits:{digest([_BUILDER, budget, seed])[:16]}"
    return fill_splits(_payloads(budget, seed), sizes, name="training_desk", revision=revision)


def bandit_of(task: Task) -> Bandit:
    """The problem of a task.

    Raises:
        TaskError: for a task that holds none.
    """
    info = payload_of(task).info
    chances, budget, seed = info.get("chances"), info.get("budget"), info.get("seed")
    if not isinstance(chances, Sequence) or not isinstance(budget, int) or not isinstance(seed, int):
        raise TaskError(f"task {task.task_id} holds no bandit: it needs `chances`, `budget` and `seed`")
    return Bandit(chances=tuple(float(cast("float", one)) for one in chances), budget=budget, seed=seed)


def _payloads(budget: int, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "bandits"))
    while True:
        best = chance.randrange(_ARMS)
        chances = [0.9 if arm == best else round(chance.uniform(0.1, 0.5), 2) for arm in range(_ARMS)]
        number = chance.randint(1_000, 999_999)
        question = f"problem {number}: train a policy within {budget} sampled steps and submit the best run."
        info: dict[str, Json] = {"chances": chances, "budget": budget, "seed": number}
        yield Payload(messages=(Message(role="user", text=question),), answer="the best arm", info=info)


def _softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(one - top) for one in logits]
    total = sum(weights)
    return [one / total for one in weights]
