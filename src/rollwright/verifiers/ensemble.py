"""Several graders of one thing: their mean, less a penalty for how far they disagree."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Literal

from rollwright.record import GradingError, NamedValue, Submission, Verdict, Verifier, digest
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.restating import shorten

__all__ = ["EnsembleVerifier"]

_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleVerifier:
    """mean − penalty · variance over the members that gave a number; each member's value is a component.

    Where fewer than `min_members` gave one, there is no number.
    """

    members: tuple[Verifier, ...]
    penalty: float = 1.0
    """Of the variance: graders that disagree are not sure, and a policy climbs where they are wrong."""
    min_members: int = 0
    """Numbers that are needed; 0: of all members."""
    name: str = "ensemble"
    scope: Literal["trajectory"] = "trajectory"

    def __post_init__(self) -> None:
        """Refuse members that cannot be told apart, and too few."""
        names = [member.name for member in self.members]
        if len(set(names)) != len(names) or not 2 <= (self.min_members or len(names)) <= len(names):
            raise VerifierSetupError(
                f"an ensemble needs two or more members of different names, and min_members between 2 and their number "
                f"or 0; given are {names} and {self.min_members}"
            )
        if any(member.scope != "trajectory" for member in self.members):
            raise VerifierSetupError("the members of an ensemble grade trajectories; one grades groups")
        if self.penalty < 0:
            raise VerifierSetupError(f"penalty is {self.penalty:g}; below 0 it would pay for disagreement")

    @property
    def revision(self) -> str:
        """A digest of the members and the penalty."""
        members = [[member.name, member.revision] for member in self.members]
        return digest([_REVISION, self.name, members, float(self.penalty), self.min_members])[:16]

    @property
    def deadline_s(self) -> float:
        """The longest of the members'; they are asked together."""
        return max(member.deadline_s for member in self.members)

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Ask all members about all."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_ask(m, submissions), name=f"{self.name}: {m.name}") for m in self.members]
        columns = [task.result() for task in running]
        return [
            self._verdict(submission, [column[place] for column in columns])
            for place, submission in enumerate(submissions)
        ]

    def _verdict(self, submission: Submission, said: Sequence[Verdict | str]) -> Verdict:
        verdicts = [verdict for verdict in said if isinstance(verdict, Verdict)]
        values = {v.verifier: v.outcome for v in verdicts if not isinstance(v.outcome, str)}
        components = [NamedValue(name=name, value=value) for name, value in values.items()]
        known = [v.cost for v in verdicts if v.cost is not None]
        failed: list[GradingError] = [v.outcome for v in verdicts if isinstance(v.outcome, str)]
        evidence = "\n".join(v if isinstance(v, str) else f"{v.verifier}: {v.outcome}" for v in said)
        if len(values) < (self.min_members or len(self.members)):
            return Verdict(
                trajectory_id=submission.trajectory_id,
                verifier=self.name,
                revision=self.revision,
                scope="trajectory",
                outcome=failed[0] if failed else "grader_error",
                components=tuple(components),
                evidence=shorten(evidence),
                cost=sum(known) if known else None,
            )
        numbers = list(values.values())
        variance = pvariance(numbers)
        components += [
            NamedValue(name="mean", value=fmean(numbers)),
            NamedValue(name="spread", value=max(numbers) - min(numbers)),
            NamedValue(name="variance", value=variance),
        ]
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope="trajectory",
            outcome=fmean(numbers) - self.penalty * variance,
            components=tuple(components),
            evidence=shorten(evidence),
            cost=sum(known) if known else None,
            canonical=next((v.canonical for v in verdicts if v.canonical is not None), None),
        )


async def _ask(member: Verifier, submissions: Sequence[Submission]) -> Sequence[Verdict | str]:
    """What a member says of each, or what went wrong with it; the others go on."""
    try:
        return await member.verify(submissions)
    except Exception as error:  # noqa: BLE001 - a member that fails is one member less
        return [f"{member.name} failed: {type(error).__name__}: {error}"] * len(submissions)
