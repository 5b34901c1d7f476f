"""What is known of each token of a segment: how it was sampled, and what one update did with it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rollwright.evidence.following import Row
from rollwright.record import Flag
from rollwright.viewer.page.words import number

__all__ = ["FLAGS", "Standing", "TokenNumbers", "number_tokens"]

Standing = Literal["trained", "weight 0", "may be trained", "never trained"]

FLAGS: Final[Mapping[int, str]] = {
    Flag.CLIPPED_HIGH: "clipped high",
    Flag.CLIPPED_LOW: "clipped low",
    Flag.DUAL_CLIP: "dual clip",
    Flag.TOKEN_MASK: "token mask",
    Flag.SEQUENCE_MASK: "sequence mask",
    Flag.STALE: "stale",
    Flag.NON_FINITE: "not finite",
    Flag.OUTSIDE_SUPPORT: "outside support",
    Flag.TRUNCATION_MASK: "truncation mask",
    Flag.ZERO_ADVANTAGE: "zero advantage",
    Flag.OUTER_CLIP: "outer clip",
    Flag.SELECTED: "selected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenNumbers:
    """One token; None: the number does not exist for it, or was not kept."""

    token_id: int
    position: int
    """In its context."""
    origin: str
    version: int | None
    standing: Standing
    behavior: float | None = None
    """Log-probability when sampled."""
    proximal: float | None = None
    current: float | None = None
    reference: float | None = None
    teacher: float | None = None
    predicted_value: float | None = None
    value_target: float | None = None
    advantage: float | None = None
    weight: float | None = None
    correction: float | None = None
    flags: int = 0
    entropy: float | None = None
    """Mean over its segment."""

    @property
    def update_ratio(self) -> float | None:
        """Current to proximal; where proximal was bypassed, current to behavior."""
        return _ratio(self.current, self.behavior if self.proximal is None else self.proximal)

    @property
    def staleness_ratio(self) -> float | None:
        """Proximal to behavior."""
        return _ratio(self.proximal, self.behavior)

    @property
    def influence(self) -> float | None:
        """|weight · correction · advantage|: how much it moved the weights, gradient of its log-probability apart."""
        if self.weight is None or self.advantage is None:
            return None
        return abs(self.weight * (1.0 if self.correction is None else self.correction) * self.advantage)

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Name and value of all that is known, in the order in which it is shown."""
        known: list[tuple[str, str]] = [
            ("token", f"id {self.token_id}, position {self.position}"),
            ("origin", self.origin),
        ]
        if self.version is not None:
            known.append(("policy version", str(self.version)))
        known.append(("mask", self.standing))
        for name, value in (
            ("log-probability when sampled", self.behavior),
            ("proximal", self.proximal),
            ("current", self.current),
            ("reference", self.reference),
            ("teacher", self.teacher),
            ("staleness ratio", self.staleness_ratio),
            ("update ratio", self.update_ratio),
            ("advantage", self.advantage),
            ("weight", self.weight),
            ("correction", self.correction),
            ("influence", self.influence),
            ("predicted value", self.predicted_value),
            ("value target", self.value_target),
            ("entropy of the segment", self.entropy),
        ):
            if value is not None:
                known.append((name, number(float(value))))
        raised = [text for bit, text in FLAGS.items() if self.flags & bit]
        if raised:
            known.append(("flags", ", ".join(raised)))
        return tuple(known)


def number_tokens(segment: Row, receipt: Row | None, streams: Row | None, first: int) -> tuple[TokenNumbers, ...]:
    """The tokens that a segment's row holds, or a part of them.

    Args:
        segment: with `token_ids` and `behavior_logprobs` cut alike, `start`, `origin`, `policy_version`, `is_eligible`.
        receipt: of one update, model and component, run-lengths expanded and cut alike; None: it has none.
        streams: the row of that update and model on which the log-probabilities stand, cut alike.
        first: place of the first token given within the segment.
    """
    ids: Sequence[int] = segment["token_ids"]
    of_receipt, of_streams = receipt or {}, streams or {}
    behavior = _stream(segment, "behavior_logprobs")
    proximal = _stream(of_streams, "proximal_logprobs")
    current = _stream(of_streams, "current_logprobs") or proximal
    columns = {
        "behavior": behavior,
        "proximal": proximal,
        "current": current,
        "reference": _stream(of_streams, "reference_logprobs"),
        "teacher": _stream(of_streams, "teacher_logprobs"),
        "predicted_value": _stream(of_streams, "predicted_values"),
        "value_target": _stream(of_streams, "value_targets"),
        "advantage": _stream(of_receipt, "advantage"),
        "weight": _stream(of_receipt, "token_weight"),
        "correction": _stream(of_receipt, "correction"),
    }
    flags = _stream(of_receipt, "flags")
    return tuple(
        TokenNumbers(
            token_id=int(token_id),
            position=int(segment["start"]) + first + at,
            origin=str(segment["origin"]),
            version=segment["policy_version"],
            standing=_standing(segment, receipt, _at(columns["weight"], at)),
            flags=int(_at(flags, at) or 0),
            entropy=of_receipt.get("entropy"),
            **{name: _at(column, at) for name, column in columns.items()},
        )
        for at, token_id in enumerate(ids)
    )


def _standing(segment: Row, receipt: Row | None, weight: float | None) -> Standing:
    if not segment["is_eligible"]:
        return "never trained"
    if receipt is None:
        return "may be trained"
    if weight is None:  # what was kept of the receipt are sums
        return "weight 0" if receipt["num_kept"] == 0 else "trained"
    return "trained" if weight != 0 else "weight 0"


def _stream(row: Mapping[str, Any], name: str) -> Sequence[float] | None:
    return row.get(name)


def _at(column: Sequence[float] | None, at: int) -> float | None:
    return column[at] if column is not None and at < len(column) else None


def _ratio(above: float | None, below: float | None) -> float | None:
    if above is None or below is None:
        return None
    try:
        return math.exp(above - below)
    except OverflowError:
        return math.inf
