"""Worked numbers of methods by plain Python, written from the formulas alone: no tensors, nothing of ours.

Each function takes the inputs of a fixture of `recipes/fixtures/methods.json` and gives the values that it can say. An
engineer who adds a method adds its formula here, apart from the code that trains.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["REFERENCES", "Reference"]

Values = dict[str, Any]
Reference = Callable[[Mapping[str, Any]], Values]

LARGEST_LOG_RATIO = 20.0


def leave_one_out(given: Mapping[str, Any]) -> Values:
    """M03: reward minus the mean of the others; one attempt alone has no baseline."""
    rewards = given["R"]
    if len(rewards) == 1:
        return {"A": [0.0], "flag": "no_baseline"}
    others = [(sum(rewards) - r) / (len(rewards) - 1) for r in rewards]
    centered = _centered(rewards)
    advantages = [r - o for r, o in zip(rewards, others, strict=True)]
    return {"A": advantages, "group_mean_A": centered, "ratio": (len(rewards) - 1) / len(rewards)}


def group_standardized(given: Mapping[str, Any]) -> Values:
    """M04: centered reward over the group's deviation; equal rewards give zero."""
    rewards = given["R"]
    if max(rewards) == min(rewards):
        return {"A": [0.0] * len(rewards), "zero_variance": True}
    centered = _centered(rewards)
    deviation = math.sqrt(sum(c * c for c in centered) / (len(rewards) - given["ddof"]))
    return {"A": [c / (deviation + given["eps"]) for c in centered], "zero_variance": False}


def group_centered(given: Mapping[str, Any]) -> Values:
    """M05: reward minus the group's mean."""
    return {"A": _centered(given["R"])}


def token_ratio(given: Mapping[str, Any]) -> Values:
    """M35: the exponential of the clamped difference of log-probabilities."""
    if "log_ratio" in given:
        logs = given["log_ratio"]
    else:
        logs = [c - p for c, p in zip(given["cur"], given["prox"], strict=True)]
    bound = given.get("clamp", LARGEST_LOG_RATIO)
    return {"rho": [math.exp(min(max(x, -bound), bound)) for x in logs]}


def clipped(given: Mapping[str, Any]) -> Values:
    """M49, M50: min(ρA, clip(ρ)A), and its gradient with respect to the current log-probability."""
    if "lo" not in given:
        return {
            f"g_at_{high:.2f}": [_clip_gradient(r, given["A"], 0.8, high) for r in given["rho"]] for high in (1.2, 1.28)
        }
    low, high = given["lo"], given["hi"]
    values: Values = {}
    for name, advantage in zip(("pos", "neg"), given["A"], strict=True):
        values[f"J_{name}"] = [min(r * advantage, min(max(r, low), high) * advantage) for r in given["rho"]]
        values[f"g_{name}"] = [_clip_gradient(r, advantage, low, high) for r in given["rho"]]
    return values


def response_mean(given: Mapping[str, Any]) -> Values:
    """M72: each response has the same mass."""
    lengths = given["len"]
    return _weights([1 / (len(lengths) * n) for n in lengths], lengths)


def token_mean(given: Mapping[str, Any]) -> Values:
    """M73: each token has the same mass."""
    lengths = given["len"]
    return _weights([1 / sum(lengths)] * len(lengths), lengths)


def fixed_length(given: Mapping[str, Any]) -> Values:
    """M74: each token has one over rows times a constant."""
    lengths = given["len"]
    return _weights([1 / (len(lengths) * given["L_max"])] * len(lengths), lengths)


def sequence_sum(given: Mapping[str, Any]) -> Values:
    """M75: each token has one over rows."""
    lengths = given["len"]
    return _weights([1 / len(lengths)] * len(lengths), lengths)


def divergence(given: Mapping[str, Any]) -> Values:
    """M81: k1, k2, k3 of current against reference, and their gradients with respect to the current log-probability."""
    d = given["log_cur_minus_ref"]
    return {
        "k1": list(d),
        "k2": [x * x / 2 for x in d],
        "k3": [math.exp(-x) - 1 + x for x in d],
        "grad_k1": [1.0 for _ in d],
        "grad_k2": list(d),
        "grad_k3": [1 - math.exp(-x) for x in d],
    }


REFERENCES: Mapping[str, Reference] = {
    "M03": leave_one_out,
    "M04": group_standardized,
    "M05": group_centered,
    "M35": token_ratio,
    "M49": clipped,
    "M50": clipped,
    "M72": response_mean,
    "M73": token_mean,
    "M74": fixed_length,
    "M75": sequence_sum,
    "M81": divergence,
}


def _centered(rewards: Sequence[float]) -> list[float]:
    mean = sum(rewards) / len(rewards)
    return [r - mean for r in rewards]


def _clip_gradient(ratio: float, advantage: float, low: float, high: float) -> float:
    is_cut = ratio > high if advantage > 0 else ratio < low
    return 0.0 if is_cut else ratio * advantage


def _weights(token_weight: Sequence[float], lengths: Sequence[int]) -> Values:
    return {"token_weight": list(token_weight), "row_mass": [w * n for w, n in zip(token_weight, lengths, strict=True)]}
