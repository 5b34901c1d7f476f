"""The answer is the same amount as the gold one, unit included."""

from dataclasses import dataclass

from rollwright.record import Submission, digest
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, gold_payload, no_answer
from rollwright.verifiers.numbers import agree
from rollwright.verifiers.quantities import QUANTITIES_REVISION, read_quantity

__all__ = ["UnitsRule", "units_verifier"]

_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsRule:
    """What counts as the same amount."""

    tolerance: float = 1e-6
    """Relative, where either side is a decimal; a task may state its own as `info.tolerance`."""

    def __post_init__(self) -> None:
        """Refuse a tolerance under which everything agrees."""
        if not 0 <= self.tolerance < 1:
            raise VerifierSetupError(f"tolerance {self.tolerance} is not in [0, 1)")


def units_verifier(rule: AnswerRule, units: UnitsRule | None = None, *, name: str = "units") -> FunctionVerifier:
    """1 where the answer is the gold amount in the same or an equivalent unit, else 0.

    A unit that is dropped, added or changed makes another amount: 5 cm is 50 mm, and neither 5 nor 5 m.

    Args:
        rule: where the answer stands.
        units: what counts as the same; part of the revision.
        name: in the tables.
    """
    settings = units or UnitsRule()

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        gold = read_quantity(payload.answer)
        if gold is None:
            raise GoldError(f"{payload.answer[:80]!r} is no number with a unit")
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        evidence = f"{reading.answer[:80]!r} against {payload.answer[:80]!r}"
        given = read_quantity(reading.answer)
        if given is None:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
        if given.dimension != gold.dimension:
            return Grade(value=0.0, evidence=f"{evidence}: other units")
        tolerance = payload.number("tolerance", settings.tolerance)
        return Grade(value=float(agree(gold.number, given.number, tolerance)), evidence=evidence)

    revision = digest([_REVISION, QUANTITIES_REVISION, name, rule.parts(), settings.tolerance])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)
