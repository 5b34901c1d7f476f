"""What must hold of groups, denominators, clips, ratios and masks, each worked out by hand beside the code."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from rollwright.algorithms import (
    Clip,
    FixedLength,
    Objective,
    ResponseMean,
    TokenMean,
    center_within_group,
    leave_one_out,
    mask_truncated,
    punish_truncated,
    standardize_within_group,
)
from rollwright.algorithms.objective import CreditFn, WeightFn
from rollwright.algorithms.presets import clipped
from rollwright.recipes.ladder.mathematics.rows import Piece, Rewrite, Row, inputs_of, piece_of

__all__ = ["CHECKS", "Equation", "wrong_by_one"]

_EXACT = 1e-12
"""Nothing here needs more than a few roundings in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """One number by hand and by code."""

    what: str
    due: float
    found: float

    @property
    def holds(self) -> bool:
        """True where they agree but for rounding."""
        return abs(self.due - self.found) <= _EXACT * max(1.0, abs(self.due))


CheckFn = Callable[[Rewrite], Iterator[Equation]]


def wrong_by_one(rule: WeightFn) -> Callable[..., Tensor]:
    """A denominator that counts one token too many."""

    def weigh(inputs: object, keep: Tensor | None) -> Tensor:
        weights = rule(inputs, keep)  # pyright: ignore[reportArgumentType] - passed on as it came
        return weights * (len(weights) / (len(weights) + 1))

    return weigh


def _objective(credit: CreditFn = center_within_group, weights: WeightFn | None = None) -> Objective:
    return clipped("by hand", credit=credit, clip=Clip(low=0.8, high=1.28), weights=weights or TokenMean())


def _equal(what: str, due: Sequence[float], found: Tensor) -> Iterator[Equation]:
    values = [float(one) for one in found.unbind()]
    yield Equation(what=f"{what}: how many", due=len(due), found=len(values))
    for place, (one, other) in enumerate(zip(due, values, strict=False)):
        yield Equation(what=f"{what}, number {place}", due=one, found=other)


def _groups(rewrite: Rewrite) -> Iterator[Equation]:
    """GRPO on groups that are all equal, with one right, balanced, and of continuous rewards (M04)."""
    grpo = partial(standardize_within_group, ddof=0, eps=0.0)
    # One right of four: mean 1/4, variance 3/16. Two of four: mean and deviation 1/2. 0, .5, 1: mean 1/2, variance 1/6.
    root = 3**0.5
    cases: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
        "all right": ((1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0)),
        "all wrong": ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)),
        "one right": ((1.0, 0.0, 0.0, 0.0), (root, -1 / root, -1 / root, -1 / root)),
        "balanced": ((1.0, 0.0, 0.0, 1.0), (1.0, -1.0, -1.0, 1.0)),
        "continuous": ((0.0, 0.5, 1.0), (-(1.5**0.5), 0.0, 1.5**0.5)),
    }
    for name, (rewards, due) in cases.items():
        rows = [Row(reward=reward, spans=(1,)) for reward in rewards]
        yield from _equal(f"GRPO, {name}", due, grpo(inputs_of(rows)).advantages)


def _left_out(rewrite: Rewrite) -> Iterator[Equation]:
    """Leave-one-out on a balanced group: G/(G − 1) times the distance from the mean (M03)."""
    rows = [Row(reward=reward, spans=(1,)) for reward in (1.0, 0.0, 0.0, 1.0)]
    yield from _equal("leave-one-out", (2 / 3, -2 / 3, -2 / 3, 2 / 3), leave_one_out(inputs_of(rows)).advantages)


def _denominators(rewrite: Rewrite) -> Iterator[Equation]:
    """Two rows of 2 and 8 tokens: each row, each token, or each of a fixed length counts alike (M72 to M74)."""
    inputs = inputs_of([Row(reward=1.0, spans=(2,)), Row(reward=0.0, spans=(8,))])
    rules: Mapping[str, tuple[WeightFn, Sequence[float]]] = {
        "response mean": (ResponseMean(), (0.5, 0.5)),
        "token mean": (TokenMean(), (0.2, 0.8)),
        "fixed length 8": (FixedLength(length=8), (0.125, 0.5)),
    }
    for name, (rule, due) in rules.items():
        weights = rewrite(rule)(inputs, None)
        yield from _equal(f"mass of each row, {name}", due, torch.stack([weights[:2].sum(), weights[2:].sum()]))


def _clips(rewrite: Rewrite) -> Iterator[Equation]:
    """The asymmetric clip for both signs of the advantage: min(ρA, clip(ρ)A) in [0.8, 1.28] (M50)."""
    for advantage, ratio, due in ((1, 1.5, 1.28), (1, 0.5, 0.5), (-1, 0.5, -0.8), (-1, 1.5, -1.5), (1, 1.25, 1.25)):
        found = min(ratio * advantage, max(0.8, min(1.28, ratio)) * advantage)
        yield Equation(what=f"equation of the clip at advantage {advantage}, ratio {ratio}", due=due, found=found)
        rows = [Row(reward=(advantage + 1) / 2, spans=(1,)), Row(reward=(1 - advantage) / 2, spans=(1,))]
        # Centred: ±1/2. Two tokens of weight 1/2, of which the first moves by log ρ and the second by its inverse.
        piece = piece_of(_objective(), rows, rewrite, moved=float(torch.tensor(ratio, dtype=torch.float64).log()))
        other = -advantage
        inverse = min(other / ratio, max(0.8, min(1.28, 1 / ratio)) * other)
        yield Equation(
            what=f"loss under the clip at advantage {advantage}, ratio {ratio}",
            due=-(found + inverse) / 4,
            found=piece.loss,
        )


def _ratios(rewrite: Rewrite) -> Iterator[Equation]:
    """Equal policies have ratio 1: the correction is 1, and the gradient of a token is −weight × advantage."""
    piece = piece_of(_objective(), [Row(reward=1.0), Row(reward=0.0)], rewrite)
    yield from _equal("correction", [1.0] * len(piece.is_action), piece.correction)
    yield from _equal("gradient", [-1 / 12] * 3 + [1 / 12] * 3, piece.gradient[piece.is_action])


def _masks(rewrite: Rewrite) -> Iterator[Equation]:
    """Prompt, observation and padding have a gradient of exactly 0."""
    rows = [Row(reward=1.0, spans=(2, 2)), Row(reward=0.0, spans=(3,))]
    piece = piece_of(_objective(), rows, rewrite, moved=0.1, padding=3)
    outside = piece.gradient[~piece.is_action]
    yield Equation(what="tokens outside with a gradient", due=0, found=float((outside != 0).sum()))
    yield Equation(what="actions with a gradient", due=7, found=float((piece.gradient[piece.is_action] != 0).sum()))


def _ends(rewrite: Rewrite) -> Iterator[Equation]:
    """A natural end keeps its reward; a cut one earns nothing, or is withheld after credit, as the treatment says."""
    rows = [Row(reward=1.0, spans=(1,)), Row(reward=1.0, spans=(1,), is_truncated=True), Row(reward=0.0, spans=(1,))]
    inputs = inputs_of(rows)
    third = 1 / 3
    punished = punish_truncated(inputs, credit=center_within_group)
    yield from _equal("negative", (2 * third, -third, -third), punished.advantages)
    masked = mask_truncated(inputs, credit=center_within_group)
    yield from _equal("masked", (third, 0.0, -2 * third), masked.advantages)
    yield Equation(what="rows that are withheld", due=1, found=float(len(masked.untrained)))


def _copies(rewrite: Rewrite) -> Iterator[Equation]:
    """A response that stands twice changes the terms of its own group alone, and those as the mean says."""
    first = [Row(reward=1.0, spans=(1,)), Row(reward=0.0, spans=(1,))]
    second = [Row(reward=1.0, group=1, spans=(1,)), Row(reward=0.0, group=1, spans=(1,))]
    twice = center_within_group(inputs_of([first[0], *first, *second])).advantages
    yield from _equal("a copy in the group", (1 / 3, 1 / 3, -2 / 3, 0.5, -0.5), twice)


def _spans(rewrite: Rewrite) -> Iterator[Equation]:
    """An action in two spans has the loss and the gradient of the same action in one, under the token mean."""
    whole, cut = (_two_rows(spans, rewrite) for spans in ((4,), (1, 3)))
    yield Equation(what="loss of an action in two spans", due=whole.loss, found=cut.loss)
    due = [float(one) for one in whole.gradient[whole.is_action].unbind()]
    yield from _equal("gradient of an action in two spans", due, cut.gradient[cut.is_action])


def _two_rows(spans: tuple[int, ...], rewrite: Rewrite) -> Piece:
    return piece_of(_objective(), [Row(reward=1.0, spans=spans), Row(reward=0.0, spans=(2,))], rewrite, moved=0.05)


CHECKS: Mapping[str, CheckFn] = MappingProxyType(
    {
        "groups": _groups,
        "leave-one-out": _left_out,
        "denominators": _denominators,
        "clip": _clips,
        "ratios": _ratios,
        "masks": _masks,
        "ends": _ends,
        "copies": _copies,
        "spans": _spans,
    }
)
"""Name to what it works out."""
