"""What an episode is asked to be: its place in the run, its seeds, its limits."""

from dataclasses import dataclass, field
from typing import Literal

from rollwright.record import Engine, Lineage, Purpose, RecordError, Sampling, Task, TerminalReason, trajectory_id_of

__all__ = ["EpisodeSpec", "Interruption", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where an episode is cut; which limit it was stands in the terminal reason."""

    turns: int = 8
    """Of all actors together: `turn_limit`."""
    turn_tokens: int = 512
    """Sampled in one turn: `token_limit`, or as `cut_turn` says."""
    episode_tokens: int = 4096
    """Sampled in the whole episode: `token_limit`."""
    context_tokens: int = 8192
    """Prompt and turn together, measured on the ids that are sent: `context_limit`. The engine's own counts too."""
    calls: int = 64
    """Of tools. A call above is answered with status `limit`; the episode goes on."""
    call_s: float = 60.0
    """One call of a tool; then status `timeout`."""
    wall_clock_s: float = 3600.0
    """The whole episode."""
    result_characters: int = 65_536
    """Of a tool's result; the middle of a longer one is cut, and the text says so."""
    stored_result_bytes: int = 16_384
    """Results above are stored as a digest alone: their tokens are in the segments anyway."""
    clock: Literal["limit", "failure"] = "failure"
    """What a time limit that fires means: the policy's (`wall_clock_limit`, status `timeout`), or, in the deterministic
    mode, a failure of the infrastructure, which is retried."""
    cut_turn: Literal["end", "go_on"] = "end"
    """What follows a turn that `turn_tokens` cut: the end of the episode, or the environment's answer to it."""
    call_order: Literal["sequential", "parallel"] = "sequential"
    """How the calls of one turn run; results are in the order of asking in either case."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing happen."""
        least = min(self.turns, self.turn_tokens, self.episode_tokens, self.context_tokens, self.result_characters)
        if least < 1 or self.calls < 0 or min(self.call_s, self.wall_clock_s) <= 0:
            raise RecordError(
                f"{self}: turns, turn_tokens, episode_tokens, context_tokens and result_characters must be at least 1, "
                "calls at least 0, call_s and wall_clock_s above 0."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSpec:
    """One attempt at one task."""

    purpose: Purpose
    stage: str
    group_id: int
    slot: int
    attempt: int
    task: Task
    reset_seed: int
    """For `Environment.open`; equal in a group."""
    episode_seed: int
    """For the draws; equal for every attempt in a slot."""
    sampling: Sampling
    limits: Limits
    lineage: Lineage | None = None
    parent_trajectory_id: str | None = None
    action_origin: Literal["policy", "demonstration"] = "policy"
    """Of the tokens that the engine gives: a demonstration is played, not sampled."""
    sandbox_profile: str | None = None
    queue_s: float = 0.0
    """How long it waited before it was started."""

    @property
    def trajectory_id(self) -> str:
        """Counters, never clock or chance."""
        return trajectory_id_of(self.purpose, self.group_id, self.slot, self.attempt)

    @property
    def share(self) -> str:
        """The group: requests of one group have a common prompt."""
        return f"{self.purpose[0]}{self.group_id:06d}"


@dataclass(slots=True, eq=False)
class Interruption:
    """Ends an episode from outside: what was drawn so far comes back as a trajectory."""

    reason: TerminalReason | None = None
    requests: dict[str, Engine] = field(default_factory=dict[str, Engine])
    """In flight; the driver keeps this."""

    async def end(self, reason: Literal[TerminalReason.ABORTED, TerminalReason.SUPERSEDED]) -> None:
        """Ask for the end and cancel what is being drawn; the first reason stands."""
        if self.reason is None:
            self.reason = reason
            for request_id, engine in tuple(self.requests.items()):
                await engine.cancel(request_id)
