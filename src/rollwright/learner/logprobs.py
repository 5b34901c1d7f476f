"""Log-probabilities of given tokens and entropies of their distributions, a chunk of positions at a time.

(tokens × vocabulary) never stands in memory at once: the forward pass keeps two numbers a token, the backward pass
makes each chunk's logits again. Logits are float32 whatever the model computes in (a step of bfloat16 near 20 is
0.125 nats), and temperature divides them before they are normalised.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["TokenScores", "predictors_of", "score_tokens", "squared_masses"]

CHUNK_NUMBERS = 1 << 20
"""Logits made at once: 4 MiB in float32, which a processor's cache still holds in part."""
LEAST_CHUNK = 256
"""Positions of a chunk, whatever the vocabulary: the head is read once a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenScores:
    """What the model says of given tokens."""

    logprobs: Tensor
    """(n,) float32 nats, at most 0."""
    entropy: Tensor
    """(n,) float32 nats, of the full vocabulary at the same temperature."""


def predictors_of(places: Tensor) -> Tensor:
    """Where the hidden state that scores each token stands: token t is scored by the state of t - 1.

    Args:
        places: (n,) int64, scored tokens of a packed stream; never the first of a row, which nothing predicts.

    Returns:
        (n,) int64.
    """
    return places - 1


def score_tokens(
    hidden: Tensor, head: Tensor, targets: Tensor, temperature: Tensor, bias: Tensor | None = None
) -> TokenScores:
    """Selected log-probabilities and entropies, differentiable in `hidden`, `head` and `bias`.

    Args:
        hidden: (n, h) of the positions that predict, any float type.
        head: (V, h) the output embedding.
        targets: (n,) int64, the tokens to score.
        temperature: (n,) above 0; divides the logits.
        bias: (V,) of the output embedding, or None.

    Returns:
        One score a target. n = 0 gives empty scores that still hang on the graph. A logit of -inf is a probability
        of zero: it adds nothing to entropy or gradient.
    """
    logprobs, entropy = _ChunkedScores.apply(hidden, head, bias, targets, temperature)
    return TokenScores(logprobs=logprobs, entropy=entropy)


def squared_masses(hidden: Tensor, head: Tensor, temperature: Tensor, bias: Tensor | None = None) -> Tensor:
    """Σπ² of each distribution over the whole vocabulary, without a gradient.

    Args:
        hidden: (n, h) of the positions that predict, any float type.
        head: (V, h) the output embedding.
        temperature: (n,) above 0; divides the logits.
        bias: (V,) of the output embedding, or None.

    Returns:
        (n,) float32, from 1/V for a uniform distribution to 1 for a certain one.
    """
    with torch.no_grad():
        masses = hidden.new_empty(len(hidden), dtype=torch.float32)
        for part in _parts(len(hidden), len(head)):
            probs = _logits(hidden[part], head, bias, temperature[part]).softmax(1)
            masses[part] = probs.square_().sum(1)
    return masses.clamp_(max=1.0)


class _ChunkedScores(torch.autograd.Function):
    """Forward and backward of `score_tokens`; saves (n,) normalisers and entropies, never logits."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        hidden: Tensor,
        head: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: Tensor,
    ) -> tuple[Tensor, Tensor]:
        normalizers = hidden.new_empty(len(targets), dtype=torch.float32)
        logprobs, entropy = torch.empty_like(normalizers), torch.empty_like(normalizers)
        for part in _parts(len(targets), len(head)):
            logits = _logits(hidden[part], head, bias, temperature[part])
            norm = logits.logsumexp(1)
            chosen = logits.gather(1, targets[part, None]).squeeze(1)
            normalizers[part], logprobs[part] = norm, chosen - norm
            entropy[part] = _entropy(logits.sub_(norm[:, None]))
        logprobs.clamp_(max=0.0)  # rounding of norm may leave a certain token at +1e-7
        ctx.save_for_backward(hidden, head, bias, targets, temperature, normalizers, entropy)
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        of_logprobs, of_entropy = grads
        hidden, head, bias, targets, temperature, normalizers, entropy = ctx.saved_tensors
        grad_hidden, grad_head = torch.zeros_like(hidden), torch.zeros_like(head, dtype=torch.float32)
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        for part in _parts(len(targets), len(head)):
            logps = _logits(hidden[part], head, bias, temperature[part]).sub_(normalizers[part, None])
            probs = logps.exp()
            grad = torch.zeros_like(probs) if of_logprobs is None else probs * -of_logprobs[part, None]
            if of_logprobs is not None:
                grad.scatter_add_(1, targets[part, None], of_logprobs[part, None])
            if of_entropy is not None:
                surprise = logps.masked_fill_(probs == 0, 0.0).add_(entropy[part, None])
                grad.addcmul_(probs * surprise, of_entropy[part, None], value=-1.0)
            grad.div_(temperature[part, None])
            with torch.autocast(hidden.device.type, enabled=False):
                grad_hidden[part] = (grad @ head.float()).to(hidden.dtype)
                grad_head.addmm_(grad.t(), hidden[part].float())
            if grad_bias is not None:
                grad_bias.add_(grad.sum(0))
        of_bias = None if bias is None or grad_bias is None else grad_bias.to(bias.dtype)
        return grad_hidden, grad_head.to(head.dtype), of_bias, None, None


def _parts(total: int, vocab_size: int) -> list[slice]:
    chunk = max(LEAST_CHUNK, CHUNK_NUMBERS // vocab_size)
    return [slice(start, min(start + chunk, total)) for start in range(0, total, chunk)]


def _logits(hidden: Tensor, head: Tensor, bias: Tensor | None, temperature: Tensor) -> Tensor:
    """(c, V) float32, divided by temperature."""
    with torch.autocast(hidden.device.type, enabled=False):
        logits = hidden.float() @ head.float().t()
    if bias is not None:
        logits = logits + bias.float()
    return logits.div_(temperature[:, None])


def _entropy(logps: Tensor) -> Tensor:
    """(c,) from (c, V) log-probabilities, where p log p is 0 at p = 0."""
    probs = logps.exp()
    return -(probs * logps.masked_fill(probs == 0, 0.0)).sum(1)
