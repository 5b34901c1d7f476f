"""A KL term on tokens that another policy sampled (M83)."""

from torch import Tensor

from rollwright.algorithms.objective import RatioFn, TokenStreams
from rollwright.algorithms.ratios.token_ratios import bypass_ratio
from rollwright.algorithms.regularizers.kl import kl_k3

__all__ = ["kl_k3_corrected"]


def kl_k3_corrected(streams: TokenStreams, *, ratio: RatioFn = bypass_ratio) -> Tensor:
    """ρ·k3: the KL under the current policy from tokens of the policy that sampled (DeepSeek-V3.2).

    Replayed tokens do not give an expectation under the current policy by themselves. ρ keeps its gradient: the mean
    over sampled tokens then has the value and the gradient of the exact KL.

    Args:
        streams: cleaned, with current, reference and what the ratio reads.
        ratio: current over the policy that sampled; `token_ratio` is that of public code, against proximal.

    Returns:
        (T,) nats; 0 at masked tokens.
    """
    return ratio(streams) * kl_k3(streams)
