"""A price on length that a task pays only once it is solved reliably: hard tasks keep their room."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, Verifier, digest
from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["ReliableLengthVerifier"]

_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableLengthVerifier:
    """−max(0, (p − threshold)/(1 − threshold)) · min(1, characters/max_characters) for each success, 0 for a failure.

    p is the share of successes in the group. As a shaping part of weight below 1 it never makes a success worth less
    than a failure. Where success is unknown there is no number.
    """

    success: Verifier
    """Of scope trajectory: a value of at least `passing` is a success."""
    passing: float = 1.0
    threshold: float = 0.5
    """Of p: at it and below nothing is paid."""
    max_characters: int = 4_000
    """Of all that the policy says, reasoning included; more costs no more."""
    name: str = "length"
    scope: Literal["group"] = "group"

    def __post_init__(self) -> None:
        """Refuse a threshold that leaves nothing above it."""
        if not 0 <= self.threshold < 1 or self.max_characters < 1 or self.success.scope != "trajectory":
            raise VerifierSetupError(
                f"threshold={self.threshold:g}, max_characters={self.max_characters}, success of scope "
                f"{self.success.scope}; needed are 0 <= threshold < 1, at least 1, and trajectory"
            )

    @property
    def revision(self) -> str:
        """A digest of the success verifier and the numbers."""
        own = [_REVISION, self.name, self.success.name, self.success.revision, float(self.passing)]
        return digest([*own, float(self.threshold), self.max_characters])[:16]

    @property
    def deadline_s(self) -> float:
        """Of the verifier that is asked."""
        return self.success.deadline_s

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Price the members of one group."""
        said = [(await self.success.verify([submission]))[0].outcome for submission in submissions]
        known = [outcome >= self.passing for outcome in said if not isinstance(outcome, str)]
        rate = sum(known) / len(known) if known else 0.0
        pressure = max(0.0, (rate - self.threshold) / (1.0 - self.threshold))
        return [self._verdict(s, outcome, rate, pressure) for s, outcome in zip(submissions, said, strict=True)]

    def _verdict(self, submission: Submission, outcome: float | str, rate: float, pressure: float) -> Verdict:
        own = [p for p in submission.passages if p.kind in ("policy", "reasoning")]
        characters = sum(len(passage.text) for passage in own)
        price = pressure * min(1.0, characters / self.max_characters)
        if isinstance(outcome, str):
            return Verdict(
                trajectory_id=submission.trajectory_id,
                verifier=self.name,
                revision=self.revision,
                scope="group",
                outcome="grader_error",
                evidence=f"{self.success.name} gave no number: {outcome}",
            )
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope="group",
            outcome=-price if outcome >= self.passing else 0.0,
            components=(
                NamedValue(name="characters", value=characters),
                NamedValue(name="pass_rate", value=rate),
                NamedValue(name="pressure", value=pressure),
            ),
        )
