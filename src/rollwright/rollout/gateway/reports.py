"""What an agent says of its episode, and what no column of a table has a place for."""

from collections.abc import Mapping
from dataclasses import dataclass

from rollwright.record import NamedValue, Segment, Span, TerminalReason, Verdict, canonical_json
from rollwright.rollout.gateway.asked import Ask
from rollwright.rollout.gateway.ending import Ending
from rollwright.rollout.gateway.errors import ApiError

__all__ = ["AgentFace", "Reports"]

REPORT = "gateway.json"
"""The artifact with the counts."""
OUTCOME = "outcome.json"
"""What the agent reported as its reward, as the verifier `reported` reads it."""
MOST_REFUSED = 256
"""Requests of one episode that are refused; an agent that goes on behind them is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFace:
    """What the tables say of an agent: it stands where an environment does."""

    name: str
    revision: str


class Reports:
    """Rewards, artifacts and counts of one episode."""

    def __init__(self, trajectory_id: str, ending: Ending) -> None:
        self._trajectory_id = trajectory_id
        self._ending = ending
        self._refused: dict[str, int] = {}
        self._overruled: dict[str, float] = {}
        self._cancelled = {"turns": 0, "tokens": 0}
        self._rewards: dict[tuple[int, str], Verdict] = {}
        self._artifacts: dict[str, bytes] = {}
        self.num_requests = 0
        """That were taken."""
        self.last_refusal: str | None = None

    @property
    def turn_rewards(self) -> tuple[Verdict, ...]:
        """Verdicts of scope turn, in the order of turns."""
        return tuple(self._rewards[key] for key in sorted(self._rewards))

    @property
    def artifacts(self) -> Mapping[str, bytes]:
        """What is kept for the verifiers, the counts among it."""
        counts = {
            "requests": self.num_requests,
            "refused": self._refused,
            "cancelled": self._cancelled,
            "overruled": self._overruled,
        }
        return {**self._artifacts, REPORT: canonical_json(counts).encode()}

    def take(self, ask: Ask) -> None:
        """Count a request that is answered, and what of it the episode's own sampling overrules."""
        self.num_requests += 1
        self._overruled.update(ask.sampling.numbers)

    def refuse(self, error: ApiError) -> None:
        """Count a request that got no answer."""
        key = error.code or str(error.status)
        self._refused[key] = self._refused.get(key, 0) + 1
        self.last_refusal = error.message
        if sum(self._refused.values()) >= MOST_REFUSED:
            cause = f"the agent went on past {MOST_REFUSED} refused requests"
            self._ending.come(TerminalReason.INFRASTRUCTURE_FAILURE, cause)

    def cancel(self, num_tokens: int) -> None:
        """Count a turn that nobody was told."""
        self._cancelled["turns"] += 1
        self._cancelled["tokens"] += num_tokens

    def keep(self, artifacts: Mapping[str, bytes]) -> None:
        """Keep what the agent left."""
        self._artifacts.update(artifacts)

    def outcome(self, reward: float, components: Mapping[str, float], *, is_over: bool) -> None:
        """Note the reward of the whole episode; the last report stands."""
        named = dict(sorted(components.items()))
        outcome = {"reward": reward, "components": named, "is_over": is_over}
        self._artifacts[OUTCOME] = canonical_json(outcome).encode()

    def turn(self, last: Segment, reward: NamedValue, face: AgentFace) -> None:
        """Note the reward of one turn; the last report of a name stands.

        Args:
            last: segment of the turn.
            reward: with the name of what it is for.
            face: of who reports it.
        """
        self._rewards[last.segment, reward.name] = Verdict(
            trajectory_id=self._trajectory_id,
            verifier=f"{face.name}/{reward.name}",
            revision=face.revision,
            scope="turn",
            outcome=reward.value,
            components=(reward,),
            span=Span(segment=last.segment, token_start=0, token_end=last.num_tokens),
        )
