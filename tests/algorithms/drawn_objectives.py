"""Random compositions: one for each part of the catalogue, the other parts drawn until the whole is legal."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, TypeVar

from rollwright.algorithms import Objective, ObjectiveError, Regularizer, check_objective, no_correction
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.objective import CreditFn, WeightFn
from rollwright.algorithms.streams import BEFORE_CREDIT
from rollwright.algorithms.trial import CREDIT_NEEDS, inputs_for, streams_before_credit, without
from tests.algorithms.battery import Held
from tests.algorithms.drawn_parts import (
    CORRECTIONS,
    CREDITS,
    NORMALIZED,
    RATIOS,
    STAGES,
    SURROGATES,
    TERMS,
    WEIGHTS,
    Term,
)

__all__ = ["Drawn", "drawn_with", "names_of_choices"]

TRIES = 400
CHOICES: Mapping[str, Mapping[str, object]] = {
    "credit": CREDITS,
    "stage": STAGES,
    "ratio": RATIOS,
    "correction": CORRECTIONS,
    "surrogate": SURROGATES,
    "weights": WEIGHTS,
    "term": TERMS,
    "normalized": NORMALIZED,
}
Of = TypeVar("Of")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A legal composition, how its gradient is compared with differences, and the sentences of those before it."""

    objective: Objective
    held: Held
    refusals: tuple[str, ...]


def names_of_choices():
    """Every choice, by kind and name."""
    return [(kind, name) for kind, choices in CHOICES.items() for name in choices]


@cache
def drawn_with(kind, name):
    """The first legal composition with this choice, of those that its name draws."""
    draws = random.Random(f"{kind} {name}")
    refusals: list[str] = []
    for _ in range(TRIES):
        objective, held = _draw(draws, kind, name)
        try:
            check_objective(objective, group_size=4)
        except ObjectiveError as error:
            refusals.append(str(error))
            continue
        return Drawn(objective=objective, held=held, refusals=tuple(refusals))
    raise AssertionError(f"nothing legal has {kind} {name!r}; the last: {refusals[-3:]}")


def _draw(draws: random.Random, kind: str, name: str) -> tuple[Objective, Held]:
    def one(choices: Mapping[str, Of]) -> Of:
        return choices[name] if choices is CHOICES[kind] else _any(draws, choices)

    credit = one(CREDITS)
    stages = [one(STAGES)] if kind == "stage" else []
    stages += [_any(draws, STAGES) for _ in range(draws.choice([0, 0, 1, 2]))]
    for stage in stages:
        credit = partial(stage, credit=credit)
    ratio, correction, loss, weights, term = one(RATIOS), one(CORRECTIONS), one(SURROGATES), one(WEIGHTS), one(TERMS)
    regularizers, asked = _terms(term, _any(draws, WEIGHTS))
    objective = Objective(
        name=f"drawn with {name}",
        credit=credit,
        ratio=ratio.make,
        keep=correction.keep,
        correction=correction.correction,
        surrogate=loss.surrogate,
        weights=weights,
        regularizers=regularizers,
        needs=_needs_of(credit) | ratio.needs | correction.needs | loss.needs | asked,
        component=loss.component,
        stages=loss.stages,
        acts_without_advantage=loss.acts_without_advantage,
        before_credit=streams_before_credit(credit),
    )
    chances: list[Literal["token", "row"] | None] = [*NORMALIZED.values(), None, None]
    over = one(NORMALIZED) if kind == "normalized" else draws.choice(chances)
    if over is not None and correction.correction is not no_correction and "proximal" in correction.needs:
        objective = self_normalizing(objective, over=over)
    elif kind == "normalized":
        return _draw(draws, kind, name)
    return objective, loss.held if loss.held != "nothing" else ratio.held


def _any(draws: random.Random, choices: Mapping[str, Of]) -> Of:
    return draws.choice(list(choices.values()))


def _needs_of(credit: CreditFn) -> frozenset[str]:
    """What a credit reads of a second model, found by leaving each out."""
    inputs, everything = inputs_for(credit, 2), frozenset(CREDIT_NEEDS.values())

    def refuses(need):
        try:
            credit(without(inputs, everything - {need}, BEFORE_CREDIT))
        except ObjectiveError:
            return True
        return False

    return frozenset(need for need in everything if refuses(need))


def _terms(term: Term | None, weights: WeightFn) -> tuple[tuple[Regularizer, ...], frozenset[str]]:
    if term is None:
        return (), frozenset()
    made = Regularizer(
        component=term.component, coefficient=term.coefficient, per_token=term.per_token, weights=weights
    )
    return (made,), term.needs
