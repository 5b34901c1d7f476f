"""Metrics of an update: a second function over the tensors of the loss (M46, M107, M135).

Each is a mean, maximum or count over the action tokens of a mask, in float64. A mean over nothing is None, never 0.
Names, formulas and units are those of the project's list of metrics; §-strata are the caller's masks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rollwright.algorithms.clipping import Clip
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, NON_FINITE, ZERO_ADVANTAGE, has_flag
from rollwright.algorithms.groups import group_statistics
from rollwright.algorithms.kl import is_k3_clamped, k3_of
from rollwright.algorithms.masking import LOGPROB_STREAMS, clean_streams
from rollwright.algorithms.objective import CreditInputs, Objective, TokenStreams
from rollwright.algorithms.ratios import LOG_RATIO_BOUND, clamped_exp

__all__ = [
    "Diagnostic",
    "effective_sample_size",
    "group_diagnostics",
    "lag_diagnostics",
    "masked_mean",
    "update_diagnostics",
]

_QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One number of an update."""

    name: str
    value: float | None
    """None: undefined, because there was nothing to measure."""
    unit: str
    num_items: int
    """Tokens or groups that the value is made of."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def update_diagnostics(
    objective: Objective, streams: TokenStreams, flags: Tensor, *, learner_version: int
) -> tuple[Diagnostic, ...]:
    """Measure an update: divergences, clipping, importance ratios, mismatch, entropy, counts.

    Args:
        objective: its clip gives the two-sided fraction, its ratio the ratios.
        streams: all tokens of the update (or of a stratum: narrow `action_mask`); what is absent is not measured.
        flags: (T,) int32 bits of the loss.
        learner_version: weights that stood before the update; mismatch is taken at equal version only.

    Returns:
        The numbers, in a fixed order. No value outside the action mask is read.
    """
    present = frozenset(streams.logprobs) & frozenset(LOGPROB_STREAMS)
    tokens = clean_streams(streams, (objective.needs & present) | {"current"}).streams
    everything = replace(tokens, logprobs=streams.logprobs)
    return (
        *_divergences(everything),
        *_clipping(objective, tokens, flags),
        *_importance(everything),
        *_mismatch(everything, learner_version),
        *_entropies(tokens),
        *_counts(streams, flags, everything),
        *lag_diagnostics(streams.policy_versions, streams.action_mask, learner_version=learner_version),
    )


def lag_diagnostics(versions: Tensor, mask: Tensor, *, learner_version: int) -> tuple[Diagnostic, ...]:
    """Age of the trained tokens in steps (M107): mean, maximum, and a count for every lag.

    Args:
        versions: (T,) int32 weights that sampled each token; below 0 where nothing was sampled.
        mask: (T,) bool.
        learner_version: weights that stand now.

    Returns:
        stale/lag_mean, stale/lag_max, and stale/lag_hist with the lag as label.
    """
    lags = (learner_version - versions)[mask & (versions >= 0)]
    count = len(lags)
    spread = int(lags.max()) + 1 if count else 0
    histogram = [(lag, int((lags == lag).sum())) for lag in range(spread)]
    return (
        Diagnostic(name="stale/lag_mean", value=_mean(lags), unit="steps", num_items=count),
        Diagnostic(name="stale/lag_max", value=float(lags.max()) if count else None, unit="steps", num_items=count),
        *(
            Diagnostic(
                name="stale/lag_hist", value=float(found), unit="tokens", num_items=count, labels={"lag": str(lag)}
            )
            for lag, found in histogram
            if found
        ),
    )


def group_diagnostics(inputs: CreditInputs, *, success_at: float) -> tuple[Diagnostic, ...]:
    """How many groups could teach something (M135): shares without contrast, split by what they all got.

    Args:
        inputs: rows of whole groups, before truncation treatments.
        success_at: reward from which an attempt is right, verifier units.

    Returns:
        reward/zero_var_frac, reward/all_right, reward/all_wrong and reward/no_baseline_frac over groups with a score.
    """
    statistics = group_statistics(inputs)
    is_first = torch.ones_like(inputs.group_index, dtype=torch.bool)
    order = inputs.group_index.argsort(stable=True)
    is_first[order[1:]] = inputs.group_index[order].diff() != 0
    is_counted = is_first & (statistics.num_episodes > 0)
    count = int(is_counted.sum())
    shares = {
        "reward/zero_var_frac": statistics.has_zero_variance,
        "reward/all_right": statistics.has_zero_variance & (statistics.mean >= success_at),
        "reward/all_wrong": statistics.has_zero_variance & (statistics.mean < success_at),
        "reward/no_baseline_frac": statistics.has_no_baseline,
    }
    return tuple(
        Diagnostic(name=name, value=_mean(where[is_counted]), unit="fraction", num_items=count)
        for name, where in shares.items()
    )


def masked_mean(values: Tensor, mask: Tensor) -> float | None:
    """Mean of (T,) values over (T,) bool mask in float64; None over nothing. Values elsewhere are not read."""
    return _mean(values[mask])


def effective_sample_size(weights: Tensor, mask: Tensor) -> float | None:
    """(Σu)²/Σu² over the mask (M46): how many equal weights would be as noisy; None over nothing.

    Args:
        weights: (T,) importance weights.
        mask: (T,) bool.

    Returns:
        Between 1 and the number of tokens; None where there is no token or all weights are 0.
    """
    used = weights[mask].detach().to(torch.float64)
    squares = float(used.square().sum())
    return float(used.sum()) ** 2 / squares if squares > 0 else None


def _divergences(tokens: TokenStreams) -> tuple[Diagnostic, ...]:
    """KL to the behavior and to the reference policy."""
    found: list[Diagnostic] = []
    current, mask = tokens.logprobs["current"].detach(), tokens.action_mask
    if (behavior := tokens.logprobs.get("behavior")) is not None:
        known = mask & behavior.isfinite()
        log_ratio = (current - behavior)[known].to(torch.float64)
        held = log_ratio.clamp(min=-LOG_RATIO_BOUND, max=LOG_RATIO_BOUND)
        found.append(_of("policy/kl_beh", -log_ratio, "nat/token"))
        found.append(_of("policy/kl_beh_k3", torch.expm1(held) - held, "nat/token"))
    if (reference := tokens.logprobs.get("reference")) is not None:
        known = mask & reference.isfinite()
        found.append(_of("policy/kl_ref", k3_of((current - reference)[known].to(torch.float64)), "nat/token"))
    return tuple(found)


def _clipping(objective: Objective, tokens: TokenStreams, flags: Tensor) -> tuple[Diagnostic, ...]:
    """Share of tokens outside the band, and of tokens whose gradient the clip took."""
    if not isinstance(objective.surrogate, Clip):
        return ()
    mask = tokens.action_mask
    ratio = objective.ratio(tokens).detach()[mask]
    is_outside = (ratio < objective.surrogate.low) | (ratio > objective.surrogate.high)
    return (
        _of("policy/clip_frac", is_outside, "fraction"),
        _of("policy/clip_frac_active", has_flag(flags, CLIPPED_HIGH | CLIPPED_LOW)[mask], "fraction"),
        _of("policy/clip_frac_high", has_flag(flags, CLIPPED_HIGH)[mask], "fraction"),
        _of("policy/clip_frac_low", has_flag(flags, CLIPPED_LOW)[mask], "fraction"),
    )


def _importance(tokens: TokenStreams) -> tuple[Diagnostic, ...]:
    """Effective sample size, chi-square and tails of current over behavior."""
    behavior = tokens.logprobs.get("behavior")
    if behavior is None:
        return ()
    known = tokens.action_mask & behavior.isfinite()
    log_ratio = (tokens.logprobs["current"].detach() - behavior)[known].to(torch.float64)
    ratio = clamped_exp(log_ratio)
    count = len(ratio)
    everywhere = torch.ones_like(ratio, dtype=torch.bool)
    size = effective_sample_size(ratio, everywhere)
    squares, mean_log = _mean(ratio.square()), _mean(log_ratio)
    return (
        Diagnostic(name="is/ess", value=size, unit="tokens", num_items=count),
        Diagnostic(name="is/ess_frac", value=None if size is None else size / count, unit="fraction", num_items=count),
        Diagnostic(name="is/chi2", value=None if squares is None else squares - 1.0, unit="", num_items=count),
        Diagnostic(
            name="is/ppl_ratio",
            value=None if mean_log is None else float(torch.tensor(-mean_log, dtype=torch.float64).exp()),
            unit="",
            num_items=count,
        ),
        Diagnostic(name="is/max", value=float(ratio.max()) if count else None, unit="ratio", num_items=count),
        *(
            Diagnostic(
                name="is/quantiles",
                value=float(ratio.sort().values[min(count - 1, int(level * count))]) if count else None,
                unit="ratio",
                num_items=count,
                labels={"quantile": str(level)},
            )
            for level in _QUANTILES
        ),
    )


def _mismatch(tokens: TokenStreams, learner_version: int) -> tuple[Diagnostic, ...]:
    """Engine against learner under the same weights: |proximal − behavior| of tokens of the standing version."""
    behavior, proximal = tokens.logprobs.get("behavior"), tokens.logprobs.get("proximal")
    if behavior is None or proximal is None:
        return ()
    is_equal_version = tokens.action_mask & (tokens.policy_versions == learner_version)
    known = is_equal_version & behavior.isfinite() & proximal.isfinite()
    gaps = (proximal - behavior)[known].abs().to(torch.float64)
    return (
        _of("mismatch/logp_abs_mean", gaps, "nat"),
        Diagnostic(
            name="mismatch/logp_abs_max",
            value=float(gaps.max()) if len(gaps) else None,
            unit="nat",
            num_items=len(gaps),
        ),
    )


def _entropies(tokens: TokenStreams) -> tuple[Diagnostic, ...]:
    """Over the whole vocabulary, and as sampled."""
    mask = tokens.action_mask
    sampled = _of("entropy/sampled", -tokens.logprobs["current"].detach()[mask], "nat")
    if tokens.entropy is None:
        return (sampled,)
    return (_of("entropy/full", tokens.entropy.detach()[mask], "nat"), sampled)


def _counts(streams: TokenStreams, flags: Tensor, tokens: TokenStreams) -> tuple[Diagnostic, ...]:
    """Tokens that were trained, and those on which something had to be held."""
    mask = streams.action_mask
    count = int(mask.sum())
    held = {
        "mask/eligible_tokens": mask,
        "mask/nonfinite_tokens": mask & has_flag(flags, NON_FINITE),
        "mask/zero_advantage_tokens": mask & has_flag(flags, ZERO_ADVANTAGE),
    }
    current = tokens.logprobs["current"].detach()
    base = tokens.logprobs.get("proximal", tokens.logprobs.get("behavior"))
    if base is not None:
        held["mask/ratio_clamped"] = tokens.action_mask & ((current - base).abs() > LOG_RATIO_BOUND)
    if (reference := tokens.logprobs.get("reference")) is not None:
        held["mask/k3_clamped"] = tokens.action_mask & is_k3_clamped(current - reference)
    return tuple(
        Diagnostic(name=name, value=float(where.sum()), unit="tokens", num_items=count) for name, where in held.items()
    )


def _of(name: str, values: Tensor, unit: str) -> Diagnostic:
    return Diagnostic(name=name, value=_mean(values), unit=unit, num_items=len(values))


def _mean(values: Tensor) -> float | None:
    return float(values.detach().to(torch.float64).mean()) if len(values) else None
