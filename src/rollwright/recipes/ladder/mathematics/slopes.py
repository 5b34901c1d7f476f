"""Finite differences of every preset's loss in every score of the current policy.

What an objective detaches is held where it stood: corrections and masks always, and what `_HELD` says of its ratio.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeVar

import torch
from torch import Generator, Tensor

from rollwright.algorithms import Objective, TokenStreams, entropy_bonus, kl_k1, kl_k2, kl_k3, loss_terms
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.objective import Surrogate
from rollwright.algorithms.presets.table import PRESETS
from rollwright.algorithms.stages import make_stages
from rollwright.algorithms.trial import inputs_for, scatter, trial_streams

__all__ = ["TERMS", "Slopes", "slopes_of", "slopes_of_term"]

T = TypeVar("T")
_Held = Literal["nothing", "other tokens", "weights", "gate"]
_HELD: Mapping[str, _Held] = MappingProxyType(
    {
        "cispo": "weights",
        "topr": "weights",
        "vespo": "weights",
        "intellect3": "weights",
        "ctpo": "other tokens",
        "maspo": "gate",
    }
)
"""Preset to what its ratio detaches: the factor of other tokens, or a weight of the log-probability or of the ratio."""
TERMS: Mapping[str, Callable[[TokenStreams], Tensor]] = MappingProxyType(
    {"kl_k1": kl_k1, "kl_k2": kl_k2, "kl_k3": kl_k3, "entropy": entropy_bonus}
)
"""Terms beside the main one, by name."""
_GROUP, _MOVED = 4, 0.05
_STEP, _NEAR = 1e-6, 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """The gradient of one preset against its finite differences."""

    preset: str
    num_places: int
    """Where the loss is smooth."""
    num_kinks: int
    """Where a flag changes within the step."""
    farthest: float
    """Largest distance, over the larger of 1 and the gradient."""

    @property
    def agree(self) -> bool:
        """True where no place is farther off than rounding explains, and most are smooth."""
        return self.num_places > self.num_kinks and self.farthest <= _NEAR


def slopes_of(name: str) -> Slopes:
    """Compare a preset's gradient with central differences, in float64.

    Args:
        name: of `PRESETS`.
    """
    objective = replace(PRESETS[name](), regularizers=())
    streams = _streams(objective)
    current = streams.logprobs["current"].detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_terms(objective, _at(streams, current), {}).loss, current)
    frozen = _holding(objective, streams, _HELD.get(name, "nothing"))
    places = [int(place) for place in streams.action_mask.nonzero().flatten().unbind()]
    kinks, farthest = 0, 0.0
    for place in places:
        (high, up), (low, down) = (_nudged(frozen, streams, place, by) for by in (_STEP, -_STEP))
        if not torch.equal(up, down):
            kinks += 1
            continue
        due = float(gradient[place])
        farthest = max(farthest, abs((high - low) / (2 * _STEP) - due) / max(1.0, abs(due)))
    return Slopes(preset=name, num_places=len(places) - kinks, num_kinks=kinks, farthest=farthest)


def slopes_of_term(name: str) -> Slopes:
    """The same of a regularizer, over tokens whose current policy differs from the reference.

    Args:
        name: of `TERMS`.
    """
    count, term = 12, TERMS[name]
    place = torch.arange(count, dtype=torch.float64)
    reference = -0.4 - 0.1 * place

    def total(current: Tensor) -> Tensor:
        streams = TokenStreams(
            row_offsets=torch.tensor([0, count]),
            action_mask=torch.ones(count, dtype=torch.bool),
            advantages=torch.zeros(count, dtype=torch.float64),
            token_weights=torch.zeros(count, dtype=torch.float64),
            policy_versions=torch.zeros(count, dtype=torch.int32),
            logprobs={"current": current, "reference": reference},
            values={},
            entropy=-0.5 * current,
        )
        return term(streams).sum()

    start = (reference + 0.2 * torch.sin(place)).requires_grad_()
    (gradient,) = torch.autograd.grad(total(start), start)
    unit = torch.eye(count, dtype=torch.float64) * _STEP
    found = torch.stack([(total(start.detach() + one) - total(start.detach() - one)) / (2 * _STEP) for one in unit])
    farthest = float((found - gradient).abs().max())
    return Slopes(preset=name, num_places=count, num_kinks=0, farthest=farthest)


def _streams(objective: Objective) -> TokenStreams:
    """The trial batch in float64, its weights those of the objective's own denominator over all rows."""
    targets = tuple(objective.weights.targets) if isinstance(objective.weights, SourceBalance) else ()
    inputs = inputs_for(objective.credit, _GROUP, targets)
    credit = objective.credit(inputs)
    bare = trial_streams(objective, inputs, credit, distance=_MOVED)
    weights = scatter(objective.weights(inputs, _kept(objective, inputs.row_offsets)), bare.action_mask)
    doubled = replace(
        bare,
        token_weights=weights,
        logprobs={name: one.detach().to(torch.float64) for name, one in bare.logprobs.items()},
        values={name: one.detach().to(torch.float64) for name, one in bare.values.items()},
        entropy=None if bare.entropy is None else bare.entropy.detach().to(torch.float64),
    )
    before = replace(doubled, logprobs={n: one for n, one in doubled.logprobs.items() if n != "current"})
    return replace(doubled, made=make_stages(objective, before, Generator().manual_seed(1)))


def _kept(objective: Objective, offsets: Tensor) -> Tensor | None:
    return torch.ones(int(offsets[-1]), dtype=torch.bool) if objective.weights.counting == "kept" else None


def _at(streams: TokenStreams, current: Tensor) -> TokenStreams:
    return replace(streams, logprobs={**streams.logprobs, "current": current})


def _nudged(objective: Objective, streams: TokenStreams, place: int, by: float) -> tuple[float, Tensor]:
    moved = streams.logprobs["current"].clone()
    moved[place] += by
    found = loss_terms(objective, _at(streams, moved), {})
    return float(found.loss), found.flags


def _holding(objective: Objective, streams: TokenStreams, held: _Held) -> Objective:
    clean = clean_streams(streams, objective.needs | {"current"}).streams
    ratio, correction, keep = objective.ratio(clean), objective.correction(clean), objective.keep(clean)
    base = clean.logprobs["current"]

    def of_other_tokens(piece: TokenStreams) -> Tensor:
        return ratio * torch.exp(piece.logprobs["current"] - base)

    def gated(moved: Tensor, piece: TokenStreams) -> Surrogate:
        stood = objective.surrogate(ratio, clean)
        return replace(stood, per_token=stood.per_token / ratio * moved)

    frozen = replace(objective, correction=_always(correction), keep=_always(keep))
    match held:
        case "nothing":
            return frozen
        case "other tokens":
            return replace(frozen, ratio=of_other_tokens)
        case "weights":
            return replace(frozen, ratio=_always(ratio))
        case "gate":
            return replace(frozen, surrogate=gated)


def _always(value: T) -> Callable[[TokenStreams], T]:
    def give(piece: TokenStreams) -> T:
        return value

    return give
