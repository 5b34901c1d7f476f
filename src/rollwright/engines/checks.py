"""What every engine refuses before it draws, each with a sentence."""

from rollwright.engines.errors import EngineError
from rollwright.record import Capabilities, GenerationRequest, Swap

__all__ = ["check_request", "check_swap"]


def check_request(request: GenerationRequest, capabilities: Capabilities, policy: str) -> None:
    """Refuse what an engine of these capabilities cannot serve.

    Raises:
        EngineError: naming what was asked and what is allowed.
    """
    name = f"request {request.request_id}"
    if request.policy != policy:
        raise EngineError(f"{name}: policy {request.policy!r} is not served here; this engine serves {policy!r}.")
    length = len(request.token_ids)
    if not 1 <= length <= capabilities.max_context_tokens:
        raise EngineError(
            f"{name}: a context of {length} tokens; this engine takes 1 to {capabilities.max_context_tokens}. "
            "Shorten the context or raise engine.max_context_tokens."
        )
    if request.max_tokens < 0 or request.chunk_tokens < 0:
        raise EngineError(
            f"{name}: max_tokens={request.max_tokens}, chunk_tokens={request.chunk_tokens}; both are 0 or more."
        )
    if request.sampling.processors:
        raise EngineError(f"{name}: logit processors {request.sampling.processors} are asked for; there are none here.")
    if unknown := request.wanted_tensors - capabilities.tensors:
        raise EngineError(f"{name}: tensors {sorted(unknown)} are not made here; {sorted(capabilities.tensors)} are.")
    if not (0 <= request.seed < 2**64 and 0 <= request.context < 2**32):
        raise EngineError(
            f"{name}: seed {request.seed} and context {request.context}; draws need 0 <= seed < 2**64 and "
            "0 <= context < 2**32."
        )


def check_swap(swap: Swap, capabilities: Capabilities) -> None:
    """Refuse a way of taking new weights that an engine does not have."""
    if swap not in capabilities.swaps:
        raise EngineError(f"new weights by {swap!r} are asked for; this engine has {sorted(capabilities.swaps)}.")
