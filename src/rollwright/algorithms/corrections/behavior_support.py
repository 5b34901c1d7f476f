"""The distribution that was sampled from: temperature, then the candidates of top-p, top-k and min-p (M47).

The learner scores a token under the distribution that drew it: the same temperature, over the recorded candidates
alone. Raw, tempered and cut log-probabilities of one token are three different numbers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["SupportScores", "candidate_set", "support_logprobs", "tempered_logprobs"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupportScores:
    """Scores over recorded candidates."""

    logprobs: Tensor
    """(n,) nats, at most 0, with gradient; 0 and without gradient where the token is outside."""
    is_outside: Tensor
    """(n,) bool: the token is not among its candidates. It leaves the action mask and is counted, never −inf."""


def tempered_logprobs(logits: Tensor, tokens: Tensor, temperature: float | Tensor) -> Tensor:
    """Log-probability of each token at its temperature, over the whole vocabulary.

    The same logits and tokens give the same bits in every call, so equal weights give a ratio of exactly 1; half
    precision is left before anything is subtracted, since near 20 a step of bfloat16 is 0.125 nats.

    Args:
        logits: (n, V), any float type; made float32 unless float64.
        tokens: (n,) int64.
        temperature: above 0; a number, or (n,).

    Returns:
        (n,) nats, at most 0, float32 or float64.
    """
    scaled = _scaled(logits, temperature)
    return _chosen(scaled, tokens) - scaled.logsumexp(1)


def candidate_set(
    logits: Tensor, temperature: float | Tensor, *, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0
) -> Tensor:
    """The tokens that may be drawn: cut by top-k, then by top-p, then by min-p, each on what the one before left.

    Args:
        logits: (n, V); −inf is never a candidate.
        temperature: above 0; a number, or (n,).
        top_p: in (0, 1]: the fewest tokens, likeliest first, that together have this probability; 1 keeps all.
        top_k: the number of likeliest tokens; 0 keeps all.
        min_p: in [0, 1]: of the likeliest token's probability; 0 keeps all.

    Returns:
        (n, V) bool, the likeliest token always in; equal logits stand in the order of token ids.
    """
    if not (0.0 < top_p <= 1.0 and top_k >= 0 and 0.0 <= min_p <= 1.0):
        raise ObjectiveError(
            f"top_p={top_p}, top_k={top_k}, min_p={min_p}; top_p lies in (0, 1], top_k is 0 (off) or more, min_p lies "
            "in [0, 1]."
        )
    scaled = _scaled(logits, temperature)
    ordered = scaled.sort(dim=1, descending=True, stable=True)
    values, places = ordered.values, torch.arange(logits.shape[1], device=logits.device)
    stays = values.isfinite()
    if top_k:
        stays = stays & (places < top_k)
    probabilities = torch.where(stays, values, -torch.inf).softmax(1)
    if top_p < 1.0:
        before = probabilities.cumsum(1) - probabilities
        stays = stays & ((before < top_p) | (places == 0))
    if min_p > 0.0:
        stays = stays & (probabilities >= min_p * probabilities[:, :1])
    return torch.zeros_like(stays).scatter(1, ordered.indices, stays)


def support_logprobs(
    logits: Tensor, tokens: Tensor, temperature: float | Tensor, *, offsets: Tensor, token_ids: Tensor
) -> SupportScores:
    """Log-probability of each token over its recorded candidates, renormalised.

    Args:
        logits: (n, V), any float type; made float32 unless float64.
        tokens: (n,) int64, as drawn.
        temperature: above 0; a number, or (n,).
        offsets: (n + 1,) int64; token i was drawn among `token_ids[offsets[i]:offsets[i + 1]]`; none: the whole
            vocabulary.
        token_ids: (m,) int64.

    Returns:
        (n,) scores, and which tokens stand outside their candidates.
    """
    if len(offsets) != len(tokens) + 1 or int(offsets[-1]) != len(token_ids):
        raise ObjectiveError(
            f"{len(tokens)} tokens have {len(offsets)} offsets into {len(token_ids)} candidates, the last "
            f"{int(offsets[-1])}; give one offset more than tokens, and the last is the number of candidates."
        )
    scaled = _scaled(logits, temperature)
    counts = offsets.diff()
    of_candidates = torch.arange(len(tokens), device=tokens.device).repeat_interleave(counts)
    found = scaled[of_candidates, token_ids]
    is_cut = counts > 0
    has_it = torch.zeros_like(is_cut).index_put(
        (of_candidates[token_ids == tokens[of_candidates]],), is_cut.new_ones(())
    )
    norms = torch.where(is_cut, _row_logsumexp(found, of_candidates, len(tokens)), scaled.logsumexp(1))
    is_outside = is_cut & ~has_it
    scores = (_chosen(scaled, tokens) - norms).clamp(max=0.0)
    return SupportScores(logprobs=torch.where(is_outside, 0.0, scores), is_outside=is_outside)


def _scaled(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """(n, V) float32 or float64 logits over temperature."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    if isinstance(temperature, Tensor):
        is_positive = bool((temperature > 0).all())
        divisor = temperature.to(exact.dtype)[:, None]
    else:
        is_positive = temperature > 0
        divisor = torch.tensor(temperature, dtype=exact.dtype, device=exact.device)
    if not is_positive:
        raise ObjectiveError(f"temperature is {temperature}; it is above 0, since greedy choices have no density.")
    return exact / divisor


def _chosen(scaled: Tensor, tokens: Tensor) -> Tensor:
    return scaled.gather(1, tokens[:, None]).squeeze(1)


def _row_logsumexp(values: Tensor, place: Tensor, num_rows: int) -> Tensor:
    """(num_rows,) log Σ exp of the (m,) values of each row; 0 for a row without values."""
    top = values.detach().new_full((num_rows,), -torch.inf).scatter_reduce(0, place, values.detach(), "amax")
    top = torch.where(top.isfinite(), top, 0.0)
    sums = values.new_zeros(num_rows).index_add(0, place, (values - top[place]).exp())
    has_values = sums > 0
    return torch.where(has_values, torch.where(has_values, sums, 1.0).log() + top, 0.0)
