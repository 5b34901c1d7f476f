"""What an update computed, gathered per token of the step's stream while its pieces go by."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.algorithms.composition import LossTerms
from rollwright.batches.layout import MicroBatch, UpdateOutcome, UpdatePlan
from rollwright.learner.logprobs import TokenScores
from rollwright.learner.ranks import sum_array

__all__ = ["CompletedUpdate", "StepOutcome", "StreamScores", "TokenLedger", "UpdateFacts"]


class CompletedUpdate(NamedTuple):
    """A plan and what became of it."""

    plan: UpdatePlan
    outcome: UpdateOutcome


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepOutcome:
    """All updates of a step, in order."""

    step: int
    updates: tuple[CompletedUpdate, ...]

    @property
    def num_applied(self) -> int:
        """Updates that moved weights."""
        return sum(done.outcome.is_applied for done in self.updates)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamScores:
    """A batch under the weights as they stand."""

    logprobs: NDArray[np.float32]
    """(T,) nats; NaN where the token is not trained."""
    entropy: NDArray[np.float32]
    """(T,) nats; NaN where the token is not trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFacts:
    """What the optimizer said of an update."""

    grad_norm: float
    learning_rate: float
    skipped_reason: str | None
    update_norm: float = 0.0
    """Of the change of the weights."""


class TokenLedger:
    """Numbers per token of a step, filled piece by piece; a token that nothing wrote is missing, not 0.

    Ranks fill tokens of their own rows; `merge` sums them, so every rank names the same arrays in the same order.
    """

    def __init__(self, num_tokens: int, components: tuple[str, ...] = ()) -> None:
        """An empty ledger of T tokens and the loss components that will be put into it."""
        self.is_scored = np.zeros(num_tokens, np.uint8)
        self.scores = np.zeros((2, num_tokens), np.float32)
        """Log-probabilities and entropies."""
        self.corrections = np.zeros(num_tokens, np.float32)
        self.bits = np.zeros((2, num_tokens), np.int32)
        """Keep and flags."""
        self.components = components
        self.losses = np.zeros((len(components), num_tokens), np.float64)

    def put_scores(self, places: Tensor, scores: TokenScores) -> None:
        """Write the scores of tokens at `places` (n,) of the step's stream."""
        index = places.cpu().numpy()
        self.is_scored[index] = 1
        self.scores[:, index] = torch.stack([scores.logprobs, scores.entropy]).detach().cpu().numpy()

    def put_terms(self, micro: MicroBatch, terms: LossTerms) -> None:
        """Write what the loss of a piece says of its tokens."""
        index = micro.token_index.cpu().numpy()
        self.corrections[index] = terms.correction.detach().cpu().numpy()
        self.bits[:, index] = torch.stack([terms.keep.int(), terms.flags.int()]).cpu().numpy()
        losses = torch.stack([terms.terms[name] for name in self.components])
        self.losses[:, index] = losses.detach().cpu().numpy()

    def merge(self, device: torch.device) -> None:
        """Sum over ranks; the ledger is whole on each of them."""
        self.is_scored = sum_array(self.is_scored, device)
        self.scores = sum_array(self.scores, device)
        if self.components:
            self.corrections = sum_array(self.corrections, device)
            self.bits = sum_array(self.bits, device)
            self.losses = sum_array(self.losses, device)

    def stream_scores(self) -> StreamScores:
        """Scores with NaN where there are none."""
        missing = np.float32(np.nan)
        logprobs, entropy = np.where(self.is_scored.astype(np.bool_), self.scores, missing)
        return StreamScores(logprobs=logprobs, entropy=entropy)

    @property
    def loss(self) -> float:
        """Of the whole update; its order is that of the step's stream, however the update was cut."""
        return float(self.losses.sum())

    def outcome(self, plan: UpdatePlan, facts: UpdateFacts, proximal: NDArray[np.float32] | None) -> UpdateOutcome:
        """The outcome of an update whose scores are its current log-probabilities.

        Args:
            plan: the update.
            facts: what the optimizer did.
            proximal: (T,) the frozen scores; None under bypass. `current` itself where they are of the same pass.

        Returns:
            With missing tokens as NaN, 0 or False.
        """
        scores = self.stream_scores()
        computed = self.is_scored.astype(np.bool_)
        is_corrected = bool((self.corrections[computed] != 1).any())
        reference = plan.batch.scores.get("reference")
        return UpdateOutcome(
            update=plan.update,
            proximal=proximal,
            current=scores.logprobs,
            reference=None if reference is None else np.where(computed, reference, np.float32(np.nan)),
            entropy=scores.entropy,
            correction=np.where(computed, self.corrections, np.float32(np.nan)) if is_corrected else None,
            keep=self.bits[0].astype(np.bool_),
            flags=self.bits[1].astype(np.uint16),
            token_losses=dict(zip(self.components, self.losses, strict=True)),
            loss=self.loss,
            grad_norm=facts.grad_norm,
            learning_rate=facts.learning_rate,
            is_applied=facts.skipped_reason is None,
            skipped_reason=facts.skipped_reason,
            update_norm=facts.update_norm,
        )
