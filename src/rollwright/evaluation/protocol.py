"""What an evaluation holds fixed: tasks, attempts, budgets, seeds and revisions, all in one digest."""

from dataclasses import dataclass

from rollwright.record import Sampling, Task, digest

__all__ = ["EvaluationProtocol"]


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

    @property
    def sha256(self) -> str:
        """The digest that seeds the episodes."""
        # Named only where there are any, so that a protocol without them is the same protocol.
        processors = {"processors": list(self.sampling.processors)} if self.sampling.processors else {}
        return digest(
            {
                **processors,
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
        )
