"""Log-probabilities of given tokens and entropies of their distributions, a chunk of positions at a time.

(tokens × vocabulary) never stands in memory at once: two chunks do, used again and again, and the backward pass makes
each chunk's logits anew. The first `KEPT_NUMBERS`, or `KEPT_POSITIONS`, are kept instead, which spares their second
product. Logits are float32 whatever the model computes in (a step of bfloat16 near 20 is 0.125 nats), and temperature
divides them before they are normalised.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["TokenScores", "predictors_of", "score_tokens", "squared_masses"]

CHUNK_NUMBERS = 1 << 20
"""Logits made at once: 4 MiB in float32, which a processor's cache still holds in part."""
LEAST_CHUNK = 256
"""Positions of a chunk, whatever the vocabulary: the head is read once a chunk."""
KEPT_NUMBERS = 1 << 22
"""Log-probabilities kept for the backward pass, in whole chunks: 16 MiB, or 8,192 tokens of a vocabulary of 512."""
KEPT_POSITIONS = 2 * LEAST_CHUNK
"""Positions that are kept where a vocabulary is so wide that `KEPT_NUMBERS` hold fewer: less than most heads take."""
_LEAST = -1e30
"""Stands for -inf where a product with a probability of 0 must be 0."""


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
    most_kept = max(KEPT_NUMBERS, KEPT_POSITIONS * len(head)) if torch.is_grad_enabled() else 0
    logprobs, entropy = _ChunkedScores.apply(hidden, head, bias, targets, temperature, most_kept)
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
        product = _Product.of(hidden, head, bias, temperature)
        for part in product.parts:
            probs = torch.softmax(product.logits(part), 1, out=product.second(part))
            masses[part] = probs.square_().sum(1)
    return masses.clamp_(max=1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Product:
    """The logits of positions, chunk by chunk, in two tables that every chunk uses again."""

    hidden: Tensor
    """(n, h) float32."""
    head: Tensor
    """(V, h) float32."""
    bias: Tensor | None
    temperature: Tensor
    parts: tuple[slice, ...]
    tables: tuple[Tensor, Tensor]
    """(c, V) float32 each."""

    @classmethod
    def of(cls, hidden: Tensor, head: Tensor, bias: Tensor | None, temperature: Tensor) -> Self:
        chunk = max(LEAST_CHUNK, CHUNK_NUMBERS // len(head))
        starts = range(0, len(hidden), chunk)
        first, second = (hidden.new_empty(min(chunk, len(hidden)), len(head), dtype=torch.float32) for _ in range(2))
        return cls(
            hidden=hidden.float(),
            head=head.float(),
            bias=None if bias is None else bias.float(),
            temperature=temperature.float(),
            parts=tuple(slice(start, min(start + chunk, len(hidden))) for start in starts),
            tables=(first, second),
        )

    def first(self, part: slice) -> Tensor:
        return self.tables[0][: part.stop - part.start]

    def second(self, part: slice) -> Tensor:
        return self.tables[1][: part.stop - part.start]

    def logits(self, part: slice) -> Tensor:
        """(c, V) divided by temperature, in the first table."""
        hidden, table, temperature = self.hidden[part], self.first(part), self.temperature[part, None]
        with torch.autocast(hidden.device.type, enabled=False):
            if self.bias is None:
                return torch.mm(hidden / temperature, self.head.t(), out=table)
            return torch.addmm(self.bias, hidden, self.head.t(), out=table).div_(temperature)


class _ChunkedScores(torch.autograd.Function):
    """Forward and backward of `score_tokens`."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        *inputs: *tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, int],
    ) -> tuple[Tensor, Tensor]:
        hidden, head, bias, targets, temperature, most_kept = inputs
        logprobs = hidden.new_empty(len(targets), dtype=torch.float32)
        entropy = torch.empty_like(logprobs)
        product = _Product.of(hidden, head, bias, temperature)
        kept: list[Tensor] = []
        for part in product.parts:
            logits = product.logits(part)
            is_kept = part.stop * len(head) <= most_kept
            table = torch.empty_like(logits) if is_kept else product.second(part)
            logps = torch.log_softmax(logits, 1, out=table)
            logprobs[part] = logps.gather(1, targets[part, None]).squeeze(1)
            probs = torch.exp(logps.clamp_(min=_LEAST), out=logits)
            entropy[part] = probs.mul_(logps).sum(1).neg_()
            if is_kept:
                kept.append(logps)
        ctx.save_for_backward(hidden, head, bias, targets, temperature, entropy, *kept)
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        hidden, head, bias, targets, temperature, entropy, *kept = ctx.saved_tensors
        of_logprobs, of_entropy = (None if one is None else one / temperature for one in grads)
        product = _Product.of(hidden, head, bias, temperature)
        due = _Due(targets=targets, entropy=entropy, of_logprobs=of_logprobs, of_entropy=of_entropy)
        grad_hidden = torch.empty_like(product.hidden)
        grad_head = torch.zeros_like(product.head) if ctx.needs_input_grad[1] else None
        grad_bias = None if product.bias is None else torch.zeros_like(product.bias)
        for number, part in enumerate(product.parts):
            logps = kept[number] if number < len(kept) else _log_probabilities(product, part)
            grad = _logit_gradient(logps, product, part, due)
            with torch.autocast(hidden.device.type, enabled=False):
                torch.mm(grad, product.head, out=grad_hidden[part])
                if grad_head is not None:
                    grad_head.addmm_(grad.t(), product.hidden[part])
            if grad_bias is not None:
                grad_bias.add_(grad.sum(0))
        of_head = None if grad_head is None else grad_head.to(head.dtype)
        of_bias = None if bias is None or grad_bias is None else grad_bias.to(bias.dtype)
        return grad_hidden.to(hidden.dtype), of_head, of_bias, None, None, None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Due:
    """What the gradient of a token's logits is made of; both gradients are those of undivided logits."""

    targets: Tensor
    entropy: Tensor
    of_logprobs: Tensor | None
    of_entropy: Tensor | None


def _log_probabilities(product: _Product, part: slice) -> Tensor:
    """(c, V) in the second table."""
    return torch.log_softmax(product.logits(part), 1, out=product.second(part)).clamp_(min=_LEAST)


def _logit_gradient(logps: Tensor, product: _Product, part: slice, due: _Due) -> Tensor:
    """(c, V) in the first table: π·(a + b log π), and the gradient of the log-probability itself at its token."""
    grad = torch.exp(logps, out=product.first(part))
    if due.of_entropy is not None:
        weights = torch.mul(logps, due.of_entropy[part, None], out=product.second(part))
        weights.add_((due.of_entropy * due.entropy)[part, None])
        if due.of_logprobs is not None:
            weights.add_(due.of_logprobs[part, None])
        grad.mul_(weights).neg_()
    elif due.of_logprobs is not None:
        grad.mul_(-due.of_logprobs[part, None])
    if due.of_logprobs is not None:
        grad.scatter_add_(1, due.targets[part, None], due.of_logprobs[part, None])
    return grad
