"""Values and advantages of the current policy from what an older one did (M45)."""

import torch

from rollwright.algorithms.credit.bootstrapping import (
    Truncation,
    bootstrap_of_rows,
    check_fraction,
    next_values,
)
from rollwright.algorithms.credit.token_rewards import credit_of_scored, rewards_on_tokens
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.ratios.token_ratios import clamped_exp
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import logprobs_of, value_of

__all__ = ["v_trace"]


def v_trace(
    inputs: CreditInputs,
    *,
    discount: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    truncation: Truncation = "bootstrap",
) -> Credit:
    """V-trace over action tokens, with ratio proximal/behavior (IMPALA: arXiv:1802.01561).

    δ_t = ρ̄_t(r_t + γV_{t+1} − V_t), v_t = V_t + δ_t + γc̄_t(v_{t+1} − V_{t+1}), A_t = ρ̄_t(r_t + γv_{t+1} − V_t). The
    advantage carries the ratio already: combine it with no further correction of staleness.

    Args:
        inputs: rows with behavior and proximal scores, `predicted` (N,) values, and `bootstrap` (R,) under
            "bootstrap".
        discount: γ in [0, 1].
        rho_bar: cap of the ratio in δ and A, above 0; it decides what the values converge to. inf: none.
        c_bar: cap of the ratio that carries differences back, above 0; it decides how fast.
        truncation: whether the critic's value follows a truncated row, or nothing.

    Returns:
        (N,) float64 advantages and value targets v, verifier units; an unscored row gets 0 and a reason.
    """
    check_fraction("the discount", discount)
    if not (rho_bar > 0 and c_bar > 0):
        raise ObjectiveError(f"rho_bar is {rho_bar} and c_bar {c_bar}; caps of a ratio are above 0, inf for none.")
    offsets = inputs.row_offsets
    values = value_of(inputs, "predicted").to(torch.float64)
    ratio = clamped_exp((logprobs_of(inputs, "proximal") - logprobs_of(inputs, "behavior")).to(torch.float64))
    rewards, behind = rewards_on_tokens(inputs), bootstrap_of_rows(inputs, truncation)
    weight = ratio.clamp(max=rho_bar)
    residuals = weight * (rewards + discount * next_values(values, offsets, behind) - values)
    targets = values + backward_scan(residuals, ratio.clamp_(max=c_bar).mul_(discount), offsets)
    following = next_values(targets, offsets, behind)
    return credit_of_scored(inputs, weight * (rewards + discount * following - values), targets)
