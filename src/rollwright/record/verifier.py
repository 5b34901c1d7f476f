"""What a verifier sees and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rollwright.record.environment import NamedValue, Task
from rollwright.record.errors import RecordError

__all__ = ["Canonical", "GradingError", "Passage", "Scope", "Span", "Submission", "Verdict", "Verifier"]

Scope = Literal["trajectory", "group", "turn", "segment", "span"]
GradingError = Literal["grader_error", "timeout", "infrastructure", "unparsable_judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stretch of the episode's text, with who wrote it."""

    actor: str
    kind: Literal["policy", "reasoning", "tool", "environment", "user"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """All that a verifier sees, live or from a stored run."""

    trajectory_id: str
    task: Task
    terminal_reason: str
    passages: tuple[Passage, ...]
    artifacts: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens of a segment, half open."""

    segment: int
    token_start: int
    token_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """What was graded, in a form in which answers that mean the same are equal."""

    kind: Literal["answer", "program"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one verifier said: a number, or why there is none. An error is not a reward."""

    trajectory_id: str
    verifier: str
    revision: str
    scope: Scope
    outcome: float | GradingError
    components: tuple[NamedValue, ...] = ()
    finding: str | None = None
    """The policy's doing: no_answer, unparsable_answer, program_timeout."""
    evidence: str = ""
    span: Span | None = None
    """None for scopes trajectory and group."""
    latency_s: float = 0.0
    cost: float | None = None
    canonical: Canonical | None = None
    """For metrics of variety, and never stored; None where nothing was read, or nobody reads an answer."""

    def __post_init__(self) -> None:
        """Refuse a number that is none."""
        if not isinstance(self.outcome, str) and self.outcome != self.outcome:
            raise RecordError(
                f"verifier {self.verifier} gave NaN for {self.trajectory_id}; a verdict is a number or one of "
                "grader_error, timeout, infrastructure, unparsable_judge."
            )


class Verifier(Protocol):
    """The same in any process and order. Scope "group": a call is one whole group."""

    @property
    def name(self) -> str:
        """Its name in the tables."""
        ...

    @property
    def revision(self) -> str:
        """A digest of what decides its verdicts."""
        ...

    @property
    def scope(self) -> Literal["trajectory", "group"]:
        """What one call takes."""
        ...

    @property
    def deadline_s(self) -> float:
        """Seconds after which a call has failed with `timeout`."""
        ...

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge finished trajectories, in the order given."""
        ...
