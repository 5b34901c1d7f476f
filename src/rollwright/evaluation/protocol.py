"""What an evaluation holds fixed: tasks, attempts, budgets, seeds and revisions, all in one digest."""

from collections.abc import Mapping
from dataclasses import dataclass

from rollwright.record import Sampling, Task, canonical_json, digest
from rollwright.tasks import Json

__all__ = ["EvaluationProtocol", "ProtocolDifference", "protocol_differences"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationProtocol:
    """Fixed before the run; two evaluations compare when their digests are equal."""

    name: str
    tasks: tuple[Task, ...]
    samples: int
    """Attempts at each task."""
    sampling: Sampling
    max_turns: int
    max_turn_tokens: int
    max_episode_tokens: int
    environment_revision: str
    reward_rule: str
    """The verifiers' composition, by revision."""
    rendering_revision: str
    success_threshold: float
    """A reward of at least this is a success."""
    level: float
    """Of the intervals."""
    seed: int

    split: str = "held_out"
    """Which tasks they are: `held_out`, or `train` to see what was learned by heart."""
    attempts: tuple[int, ...] = ()
    """The k of pass@k, pass^k, maj@k and cover@k; none: 1, 2, 4 and so on up to `samples`."""
    cover_rates: tuple[float, ...] = ()
    """The success rates τ of cover@τ; none: one half and 1."""
    gold: str = ""
    """Revision of the second verifier on the same episodes; empty: there is none."""
    gold_verifier: str = ""
    """Its name in the table of verdicts."""

    @property
    def sha256(self) -> str:
        """The digest that seeds the episodes."""
        return digest(self._decided)

    @property
    def measured_attempts(self) -> tuple[int, ...]:
        """The k that are measured, in order."""
        powers = (2**n for n in range(self.samples.bit_length()))
        return self.attempts or tuple(k for k in powers if k <= self.samples)

    @property
    def measured_rates(self) -> tuple[float, ...]:
        """The success rates whose coverage is measured."""
        return self.cover_rates or (0.5, 1.0)

    @property
    def facts(self) -> Mapping[str, str]:
        """What the digest is made of, each as canonical JSON; of the tasks their number and a digest."""
        decided = self._decided
        listed: dict[str, Json] = {"num_tasks": len(self.tasks), "tasks": digest(decided["tasks"])[:16]}
        return {name: canonical_json(value) for name, value in (decided | listed).items()}

    @property
    def _decided(self) -> dict[str, Json]:
        # Named only where there are any, so that a protocol without them is the same protocol as before there were.
        added: dict[str, Json] = {
            "processors": list(self.sampling.processors),
            "split": "" if self.split == "held_out" else self.split,
            "attempts": list(self.attempts),
            "cover_rates": list(self.cover_rates),
            "gold": self.gold,
        }
        return {name: value for name, value in added.items() if value} | {
            "tasks": [task.task_id for task in self.tasks],
            "samples": self.samples,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "top_k": self.sampling.top_k,
            "min_p": self.sampling.min_p,
            "max_turns": self.max_turns,
            "max_turn_tokens": self.max_turn_tokens,
            "max_episode_tokens": self.max_episode_tokens,
            "environment": self.environment_revision,
            "reward_rule": self.reward_rule,
            "rendering": self.rendering_revision,
            "success_threshold": self.success_threshold,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolDifference:
    """One thing that two protocols do not hold alike."""

    name: str
    values: tuple[str, ...]
    """Of each protocol, in order, as JSON; `absent` where it says nothing of it."""


def protocol_differences(facts: tuple[Mapping[str, str], ...]) -> tuple[ProtocolDifference, ...]:
    """Why numbers under these protocols do not compare.

    Args:
        facts: of each protocol.

    Returns:
        By name; nothing where all are the same.
    """
    names = sorted({name for one in facts for name in one})
    rows = [(name, tuple(one.get(name, "absent") for one in facts)) for name in names]
    return tuple(ProtocolDifference(name=name, values=values) for name, values in rows if len(set(values)) > 1)
