"""Random compositions: one for each part of the catalogue, the other parts drawn until the whole is legal."""

import random
from dataclasses import dataclass
from functools import cache, partial

from rollwright.algorithms import Objective, ObjectiveError, Regularizer, check_objective, no_correction
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.streams import BEFORE_CREDIT
from rollwright.algorithms.trial import CREDIT_NEEDS, inputs_for, streams_before_credit, without
from tests.algorithms.battery import Held
from tests.algorithms.drawn_parts import CHOICES

__all__ = ["Drawn", "drawn_with", "names_of_choices"]

TRIES = 400


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


def _draw(draws, kind, name):
    def one(of):
        return CHOICES[of][name if of == kind else draws.choice(list(CHOICES[of]))]

    credit = one("credit")
    stages = [one("stage")] if kind == "stage" else []
    stages += [_any(draws, "stage") for _ in range(draws.choice([0, 0, 1, 2]))]
    for stage in stages:
        credit = partial(stage, credit=credit)
    ratio, correction, loss, weights, term = (one(of) for of in ("ratio", "correction", "surrogate", "weights", "term"))
    regularizers, asked = _terms(term, _any(draws, "weights"))
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
    over = one("normalized") if kind == "normalized" else draws.choice(["token", "row", None, None])
    if over is not None and correction.correction is not no_correction and "proximal" in correction.needs:
        objective = self_normalizing(objective, over=over)
    elif kind == "normalized":
        return _draw(draws, kind, name)
    return objective, loss.held if loss.held != "nothing" else ratio.held


def _any(draws, kind):
    return draws.choice(list(CHOICES[kind].values()))


def _needs_of(credit):
    """What a credit reads of a second model, found by leaving each out."""
    inputs, everything = inputs_for(credit, 2), frozenset(CREDIT_NEEDS.values())

    def refuses(need):
        try:
            credit(without(inputs, everything - {need}, BEFORE_CREDIT))
        except ObjectiveError:
            return True
        return False

    return frozenset(need for need in everything if refuses(need))


def _terms(term, weights):
    if not term:
        return (), frozenset()
    component, per_token, coefficient, needs = term
    made = Regularizer(component=component, coefficient=coefficient, per_token=per_token, weights=weights)
    return (made,), needs
