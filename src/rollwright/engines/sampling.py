"""From logits to a token: temperature, top-k, top-p, min-p, and the log-probability of what was really sampled from.

The order is fixed: logits are divided by the temperature and normalised; top-k keeps the k most probable tokens; top-p
the smallest set of the most probable that holds this share of what top-k left; min-p those at least this share as
probable as the best. Equal probabilities are taken in id order. What is left is normalised again. Temperature 0 is
greedy: the most probable token, the lowest id on a tie, with log-probability 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.draws import invert_in_place
from rollwright.record import Sampling

__all__ = ["Drawn", "SamplingRows", "Scored", "distribution", "draw", "score", "support"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SamplingRows:
    """The sampling of many rows, one entry a row."""

    temperature: Floats
    top_p: Floats
    top_k: NDArray[np.int64]
    min_p: Floats

    @classmethod
    def of(cls, samplings: Sequence[Sampling]) -> "SamplingRows":
        """The rows of these samplings, in order."""
        return cls(
            temperature=np.array([one.temperature for one in samplings], dtype=np.float64),
            top_p=np.array([one.top_p for one in samplings], dtype=np.float64),
            top_k=np.array([one.top_k for one in samplings], dtype=np.int64),
            min_p=np.array([one.min_p for one in samplings], dtype=np.float64),
        )

    def take(self, rows: NDArray[np.intp]) -> "SamplingRows":
        """The entries of some rows."""
        return SamplingRows(
            temperature=self.temperature[rows], top_p=self.top_p[rows], top_k=self.top_k[rows], min_p=self.min_p[rows]
        )

    @cached_property
    def truncated(self) -> NDArray[np.intp]:
        """The rows in which some tokens may be cut."""
        return np.flatnonzero((self.top_p < 1) | (self.top_k > 0) | (self.min_p > 0))

    @cached_property
    def greedy(self) -> NDArray[np.intp]:
        """The rows that take the most probable token."""
        return np.flatnonzero(self.temperature == 0)

    @cached_property
    def divisors(self) -> Floats | None:
        """(n, 1) of the logits; None: all are 1."""
        if (self.temperature == 1).all():
            return None
        return np.where(self.temperature > 0, self.temperature, 1.0)[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """One token a row."""

    token_ids: NDArray[np.int64]
    logprobs: Floats
    """Nats, under the distribution that was sampled from; NaN where the logits were not finite: nothing was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Given tokens and the most probable ones beside them."""

    logprobs: Floats
    """(n,)"""
    best_ids: NDArray[np.intp]
    """(n, top_k)"""
    best_logprobs: Floats
    """(n, top_k)"""


def support(probabilities: Floats, rows: SamplingRows) -> NDArray[np.bool_]:
    """Which tokens top-k, top-p and min-p leave.

    Args:
        probabilities: (n, V) float64 after temperature.
        rows: of the same n rows.

    Returns:
        (n, V), at least one True in each row.
    """
    size = probabilities.shape[1]
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=1)
    limit = np.where(rows.top_k > 0, rows.top_k, size)
    ordered[np.arange(size)[None, :] >= limit[:, None]] = 0.0
    mass_before = ordered.cumsum(axis=1) - ordered
    kept = ordered > 0
    kept &= (mass_before < (rows.top_p * ordered.sum(axis=1))[:, None]) | (rows.top_p >= 1)[:, None]
    kept &= ordered >= (rows.min_p * ordered[:, 0])[:, None]
    kept[:, 0] = True
    found = np.zeros_like(kept)
    np.put_along_axis(found, order, kept, axis=1)
    return found


def distribution(logits: NDArray[np.float32], rows: SamplingRows) -> Floats:
    """Log-probabilities that tokens are drawn from.

    Args:
        logits: (n, V) float32.
        rows: of the same n rows.

    Returns:
        (n, V) float64 nats, −inf for what cannot be drawn; all NaN in a row whose logits were not finite.
    """
    scaled = _scaled(logits, logits.max(axis=1), rows)
    weights = _weighed(scaled.copy(), rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(weights > 0, scaled - np.log(weights.sum(axis=1))[:, None], -np.inf)
    scores[np.isnan(scaled).any(axis=1)] = np.nan
    greedy = rows.greedy
    for row in greedy[~np.isnan(scores[greedy]).any(axis=1)]:
        best = int(logits[row].argmax())
        scores[row] = -np.inf
        scores[row, best] = 0.0
    return scores


def draw(logits: NDArray[np.float32], rows: SamplingRows, draws: Floats) -> Drawn:
    """Draw one token a row.

    Args:
        logits: (n, V) float32.
        rows: of the same n rows.
        draws: (n,) uniform numbers in [0, 1).

    Returns:
        The tokens and their log-probabilities.
    """
    best = logits.max(axis=1)
    # One array of this size, changed in place: to take new memory for each pass would cost more than the passes.
    weights = _weighed(_scaled(logits, best, rows), rows)
    totals = weights.sum(axis=1)
    weights /= totals[:, None]
    tokens, beyond = invert_in_place(weights, draws)
    for row in beyond.tolist():
        one = rows.take(np.array([row]))
        left = _weighed(_scaled(logits[row : row + 1], best[row : row + 1], one), one)
        tokens[row] = np.flatnonzero(left[0] / totals[row])[-1]
    picked = logits[np.arange(len(logits)), tokens]
    logprobs = _scaled(picked[:, None], best, rows)[:, 0] - np.log(totals)
    greedy = rows.greedy
    if len(greedy):
        tokens[greedy] = logits[greedy].argmax(axis=1)
        logprobs[greedy] = 0.0
    # Also of a greedy row, whose total is that of all its logits.
    logprobs[~np.isfinite(totals)] = np.nan
    return Drawn(token_ids=tokens, logprobs=logprobs)


def score(logits: NDArray[np.float32], token_ids: NDArray[np.integer], sampling: Sampling, top_k: int = 0) -> Scored:
    """Log-probabilities of given tokens under one sampling.

    Args:
        logits: (n, V) float32; row i is what token i was drawn from.
        token_ids: (n,) the tokens.
        sampling: of all rows.
        top_k: how many of the most probable tokens to name beside each.

    Returns:
        (n,) nats, −inf for a token that this sampling cannot draw; and the best tokens, the lowest id first on a tie.
    """
    rows = SamplingRows.of([sampling] * len(token_ids))
    scores = distribution(logits, rows)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k] if top_k else np.zeros((len(scores), 0), dtype=np.intp)
    return Scored(
        logprobs=scores[np.arange(len(token_ids)), token_ids],
        best_ids=best,
        best_logprobs=np.take_along_axis(scores, best, axis=1),
    )


def _scaled(logits: NDArray[np.float32], best: NDArray[np.float32], rows: SamplingRows) -> Floats:
    """Logits less the best of their row, over the temperature; float64, a new array."""
    with np.errstate(invalid="ignore"):
        scaled = np.subtract(logits, best[:, None], dtype=np.float64)
        if rows.divisors is not None:
            scaled /= rows.divisors
    return scaled


def _weighed(scaled: Floats, rows: SamplingRows) -> Floats:
    """Their exponentials, 0 where cut, in the place of `scaled`."""
    with np.errstate(invalid="ignore"):
        weights = np.exp(scaled, out=scaled)
    cut = rows.truncated
    if len(cut):
        probabilities = weights[cut] / weights[cut].sum(axis=1, keepdims=True)
        weights[cut] = np.where(support(probabilities, rows.take(cut)), weights[cut], 0.0)
    return weights
