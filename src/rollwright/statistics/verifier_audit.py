"""What an audit says of a verifier: error rates, the pass rate behind them, and bounds where nothing was found.

An audit draws among accepted and among rejected attempts and has each looked at by something better (M121 to M123).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval, wilson_interval

__all__ = [
    "MetamorphicGap",
    "VerifierAudit",
    "VerifierErrors",
    "exact_upper_bound",
    "metamorphic_gap",
    "rogan_gladen",
    "stratified_errors",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierErrors:
    """Estimates over all judged attempts; None where the audit cannot say."""

    false_positives: float | None
    """Accepted attempts that are wrong."""
    false_negatives: float | None
    """Rejected attempts that are right."""
    sensitivity: float | None
    """Right attempts that are accepted, of all right ones."""
    false_positive_rate: float | None
    """Wrong attempts that are accepted, of all wrong ones."""
    precision: float | None
    """Accepted attempts that are right, of all accepted."""
    corrected_pass_rate: float | None
    false_accepts: Interval
    """Of the share of accepted attempts that are wrong."""
    false_rejects: Interval
    """Of the share of rejected attempts that are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierAudit:
    """Counts of a stratified audit."""

    accepted: int
    audited_accepted: int
    false_accepts: int
    """Among the audited."""
    rejected: int
    audited_rejected: int
    false_rejects: int
    """Among the audited."""

    def __post_init__(self) -> None:
        """Refuse counts that no audit gives."""
        accepted = (self.false_accepts, self.audited_accepted, self.accepted)
        rejected = (self.false_rejects, self.audited_rejected, self.rejected)
        if any(not 0 <= wrong <= audited <= judged for wrong, audited, judged in (accepted, rejected)):
            raise StatisticsError(
                f"of {self.accepted} accepted {self.audited_accepted} were audited and {self.false_accepts} wrong, of "
                f"{self.rejected} rejected {self.audited_rejected} and {self.false_rejects}; each is at most the one "
                "before it."
            )

    def errors(self, *, level: float = 0.95) -> VerifierErrors:
        """Error counts and rates, with Wilson intervals of the two audited shares.

        Args:
            level: confidence of the intervals.

        Returns:
            Estimates; a stratum of which nothing was audited leaves them undefined, an empty one counts as 0.
        """
        return stratified_errors([self], level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetamorphicGap:
    """A verifier on tasks and on the same tasks with everything renamed."""

    hack_gap: float | None
    """Mean reward of the originals minus that of the renamed; None without pairs."""
    failure_rate: float | None
    """Share of accepted originals whose renamed twin is not accepted; None where none was accepted."""


def rogan_gladen(observed: float, sensitivity: float, false_positive_rate: float) -> float | None:
    """(p − FPR)/(TPR − FPR), held in [0, 1]: the pass rate behind a verifier that errs.

    Args:
        observed: p, share of accepted attempts.
        sensitivity: TPR of the verifier.
        false_positive_rate: FPR of the verifier.

    Returns:
        None where the verifier tells right from wrong no better than chance (TPR ≤ FPR).
    """
    if not all(0 <= share <= 1 for share in (observed, sensitivity, false_positive_rate)):
        raise StatisticsError(
            f"observed {observed}, sensitivity {sensitivity}, false positive rate {false_positive_rate}; all lie "
            "between 0 and 1."
        )
    if sensitivity <= false_positive_rate:
        return None
    return min(1.0, max(0.0, (observed - false_positive_rate) / (sensitivity - false_positive_rate)))


def stratified_errors(audits: Sequence[VerifierAudit], *, level: float = 0.95) -> VerifierErrors:
    """Errors over several audited parts of a run, such as its sources, each carried over to its own size.

    Args:
        audits: one a part.
        level: confidence of the intervals, which are those of the pooled audited shares: right where every part was
            audited in proportion to its size.
    """
    wrong = _added([_scaled(a.accepted, a.false_accepts, a.audited_accepted) for a in audits])
    missed = _added([_scaled(a.rejected, a.false_rejects, a.audited_rejected) for a in audits])
    accepted, rejected = sum(a.accepted for a in audits), sum(a.rejected for a in audits)
    sensitivity = false_positive_rate = None
    if wrong is not None and missed is not None:
        sensitivity = _over(accepted - wrong, accepted - wrong + missed)
        false_positive_rate = _over(wrong, wrong + rejected - missed)
    observed = _over(accepted, accepted + rejected)
    corrected = None
    if observed is not None and sensitivity is not None and false_positive_rate is not None:
        corrected = rogan_gladen(observed, sensitivity, false_positive_rate)
    return VerifierErrors(
        false_positives=wrong,
        false_negatives=missed,
        sensitivity=sensitivity,
        false_positive_rate=false_positive_rate,
        precision=None if wrong is None else _over(accepted - wrong, accepted),
        corrected_pass_rate=corrected,
        false_accepts=wilson_interval(
            sum(a.false_accepts for a in audits), sum(a.audited_accepted for a in audits), level=level
        ),
        false_rejects=wilson_interval(
            sum(a.false_rejects for a in audits), sum(a.audited_rejected for a in audits), level=level
        ),
    )


def exact_upper_bound(found: int, audited: int, *, level: float = 0.95) -> float:
    """Largest share that is compatible with so few finds, by the exact binomial test on one side.

    Args:
        found: confirmed cases among the audited.
        audited: attempts that were looked at; what the look cannot detect is not bounded.
        level: confidence.

    Returns:
        1 − (1 − level)^(1/n) where nothing was found, near 3/n at 0.95; 1 without an audit.
    """
    if not 0 <= found <= audited or not 0 < level < 1:
        raise StatisticsError(f"{found} of {audited} at level {level}; finds are at most the audited, 0 < level < 1.")
    if found == audited:
        return 1.0
    if found == 0:
        return -math.expm1(math.log1p(-level) / audited)
    low, high = found / audited, 1.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _at_most(found, audited, middle) > 1.0 - level else (low, middle)
    return high


def metamorphic_gap(originals: Sequence[float], renamed: Sequence[float], *, success_at: float = 1.0) -> MetamorphicGap:
    """How much reward is lost when names change and meaning does not: what was learned of the verifier alone.

    Args:
        originals: reward of each attempt on its task.
        renamed: reward of the same attempt, carried over to the renamed task, in the same order.
        success_at: reward from which an attempt is accepted.
    """
    if len(originals) != len(renamed):
        raise StatisticsError(f"{len(originals)} originals and {len(renamed)} renamed twins; give pairs.")
    accepted = [twin for reward, twin in zip(originals, renamed, strict=True) if reward >= success_at]
    return MetamorphicGap(
        hack_gap=float(np.mean(originals) - np.mean(renamed)) if originals else None,
        failure_rate=sum(twin < success_at for twin in accepted) / len(accepted) if accepted else None,
    )


def _scaled(judged: int, wrong: int, audited: int) -> float | None:
    """Audited errors carried over to all that was judged."""
    if audited:
        return judged * wrong / audited
    return None if judged else 0.0


def _added(parts: Sequence[float | None]) -> float | None:
    """The sum; unknown where a part is."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _at_most(found: int, audited: int, share: float) -> float:
    """Chance of at most `found` cases among the audited."""
    terms = (
        math.lgamma(audited + 1)
        - math.lgamma(k + 1)
        - math.lgamma(audited - k + 1)
        + k * math.log(share)
        + (audited - k) * math.log1p(-share)
        for k in range(found + 1)
    )
    return math.fsum(math.exp(term) for term in terms)
