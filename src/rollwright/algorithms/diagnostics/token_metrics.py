"""Metrics of the trained tokens of an update or of a stratum: divergences, clipping, importance ratios, mismatch.

Where a score is not finite the token is left out of what reads it, and counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.diagnostics.measurement import Diagnostic, is_finite, largest_of, mean_of, share_of
from rollwright.algorithms.diagnostics.token_measures import TokenMeasures
from rollwright.algorithms.diagnostics.token_values import CUTS, QUANTILES, SIDES, reduce_whole, token_values
from rollwright.algorithms.flags import NON_FINITE, SELECTED, ZERO_ADVANTAGE, has_flag
from rollwright.algorithms.ratios.token_ratios import LOG_RATIO_BOUND, clamped_exp
from rollwright.algorithms.regularizers.kl import is_k3_clamped, k3_of
from rollwright.algorithms.staleness.lag import lag_of

__all__ = ["effective_sample_size", "lag_diagnostics", "token_diagnostics"]


def token_diagnostics(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Every metric that the given streams allow, in a fixed order; what is absent is not measured.

    Args:
        tokens: N trained tokens.

    Returns:
        The numbers; a mean over nothing is None.
    """
    return (
        *(reduce_whole(values) for values in token_values(tokens)),
        *_counts(tokens),
        *_reasons(tokens),
        *_distance(tokens),
        *_teacher_gap(tokens),
        *_mismatch(tokens),
        *_importances(tokens),
    )


def lag_diagnostics(versions: Tensor, mask: Tensor, *, learner_version: int) -> tuple[Diagnostic, ...]:
    """Age of tokens in steps (M107): mean, maximum, a count for every lag, and how many versions there are.

    Args:
        versions: (T,) int32 weights that sampled each token; below 0 where nothing was sampled.
        mask: (T,) bool.
        learner_version: weights that stand now.

    Returns:
        stale/lag with the statistic as label, stale/lag_hist with the lag as label, and stale/num_versions.
    """
    lags = (learner_version - versions.to(torch.int64))[mask & (versions >= 0)]
    if len(lags):
        lag_of(learner_version - int(lags.min()), learner_version=learner_version)
    counts = lags.bincount()
    present = [(int(lag), int(counts[lag])) for lag in counts.nonzero().flatten().unbind()]
    return (
        mean_of("stale/lag", lags, "steps", {"stat": "mean"}),
        largest_of("stale/lag", lags, "steps", {"stat": "max"}),
        Diagnostic(name="stale/num_versions", value=float(len(present)), unit="count", num_items=len(lags)),
        *(
            Diagnostic(
                name="stale/lag_hist",
                value=float(count),
                unit="tokens",
                num_items=len(lags),
                labels={"lag": str(lag)},
            )
            for lag, count in present
        ),
    )


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


def _counts(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Tokens that were trained, and those on which something had to be held."""
    total = len(tokens.flags)
    counts: dict[str, int | None] = {
        "mask/trained_tokens": total,
        "mask/nonfinite_tokens": int(has_flag(tokens.flags, NON_FINITE).sum()),
        "mask/zero_advantage_tokens": int(has_flag(tokens.flags, ZERO_ADVANTAGE).sum()),
    }
    if (moved := _update_log_ratio(tokens)) is not None:
        counts["mask/ratio_clamped"] = _count(moved.abs() > LOG_RATIO_BOUND, is_finite(moved))
    if (away := tokens.log_ratio("current", "reference")) is not None:
        counts["mask/k3_clamped"] = _count(is_k3_clamped(away), is_finite(away))
    return tuple(
        Diagnostic(name=name, value=None if count is None else float(count), unit="count", num_items=total)
        for name, count in counts.items()
    )


def _update_log_ratio(tokens: TokenMeasures) -> Tensor | None:
    """Current over proximal, or over behavior in bypass mode, where there is no proximal score."""
    over_proximal = tokens.log_ratio("current", "proximal")
    if over_proximal is not None and bool(is_finite(over_proximal).any()):
        return over_proximal
    return tokens.log_ratio("current", "behavior")


def _count(where: Tensor, known: Tensor) -> int | None:
    return int((where & known).sum()) if bool(known.any()) else None


def _reasons(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Clips and cuts by their kind, and the share of tokens that a stage of the update selected."""
    flags = tokens.flags
    return (
        *(share_of("policy/clip_frac", has_flag(flags, bit), {"side": side}) for side, bit in SIDES.items()),
        *(share_of("policy/mask_frac", has_flag(flags, bit), {"reason": reason}) for reason, bit in CUTS.items()),
        share_of("entropy/cov_share", has_flag(flags, SELECTED)),
    )


def _distance(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Square root of the mean k3 to the reference, the axis of over-optimization."""
    away = tokens.log_ratio("current", "reference")
    if away is None:
        return ()
    k3 = k3_of(away[is_finite(away)])
    value = float(k3.mean().clamp(min=0).sqrt()) if len(k3) else None
    return (Diagnostic(name="policy/kl_ref_sqrt", value=value, unit="1", num_items=len(k3)),)


def _teacher_gap(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    gap = tokens.log_ratio("teacher", "current")
    return () if gap is None else (mean_of("distill/teacher_gap", gap[is_finite(gap)], "nat/token"),)


def _mismatch(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Engine against learner under the same weights: proximal and behavior of tokens of the standing version."""
    gaps = tokens.log_ratio("proximal", "behavior")
    if gaps is None:
        return ()
    known = is_finite(gaps) & (tokens.lags == 0)
    gaps = gaps[known].abs()
    trained, sampled = (tokens.logprobs[name][known].exp() for name in ("proximal", "behavior"))
    return (
        mean_of("mismatch/logp_abs", gaps, "nat", {"stat": "mean"}),
        largest_of("mismatch/logp_abs", gaps, "nat", {"stat": "max"}),
        Diagnostic(
            name="mismatch/prob_corr",
            value=_correlation(trained, sampled),
            unit="1",
            num_items=len(gaps),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ratios:
    """Of a policy over the behavior policy, where both have a score."""

    log_ratio: Tensor
    """(n,) in the order of the tokens."""
    ordered: Tensor
    """(n,) the ratios themselves, ascending."""


def _importances(tokens: TokenMeasures) -> tuple[Diagnostic, ...]:
    """Of the proximal and of the current policy; they are often one."""
    proximal = _ratios(tokens, "proximal")
    is_one = tokens.logprobs.get("proximal") is tokens.logprobs.get("current")
    current = proximal if is_one else _ratios(tokens, "current")
    return (*_importance(proximal, {}), *_importance(current, {"ratio": "current/behavior"}))


def _ratios(tokens: TokenMeasures, above: str) -> _Ratios | None:
    log_ratio = tokens.log_ratio(above, "behavior")
    if log_ratio is None:
        return None
    log_ratio = log_ratio[is_finite(log_ratio)]
    return _Ratios(log_ratio=log_ratio, ordered=clamped_exp(log_ratio).sort().values)


def _importance(ratios: _Ratios | None, labels: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Effective sample size, chi-square, perplexity ratio and tails of a policy over the behavior policy."""
    if ratios is None:
        return ()
    log_ratio, ratio = ratios.log_ratio, ratios.ordered
    count = len(ratio)
    size = effective_sample_size(ratio, torch.ones_like(ratio, dtype=torch.bool))
    numbers = {
        "is/ess": (size, "tokens"),
        "is/chi2": (float(ratio.square().mean()) - 1.0 if count else None, "1"),
        "is/ppl_ratio": (float((-log_ratio.mean()).exp()) if count else None, "1"),
    }
    if labels:
        # Without a label these two are among the values of tokens.
        numbers["is/ess_frac"] = (None if size is None else size / count, "fraction")
        numbers["is/max"] = (float(ratio[-1]) if count else None, "ratio")
    return (
        *(
            Diagnostic(name=name, value=value, unit=unit, num_items=count, labels=labels)
            for name, (value, unit) in numbers.items()
        ),
        *(
            Diagnostic(
                name="is/quantiles",
                value=float(ratio[min(count - 1, int(level * count))]) if count else None,
                unit="ratio",
                num_items=count,
                labels={**labels, "quantile": str(level)},
            )
            for level in QUANTILES
        ),
    )


def _correlation(left: Tensor, right: Tensor) -> float | None:
    """Pearson's; None below two tokens or where one of the two does not vary."""
    if len(left) < 2:
        return None
    found = float(torch.stack([left, right]).corrcoef()[0, 1])
    return found if found == found else None
