"""Constants that nobody disclosed: an objective can be looked at without them."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from rollwright.algorithms.disclosure import StandIn, StandInWord, UndisclosedError, chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.recipes.config.strict import StrictConfig
from rollwright.recipes.stand_ins import first_choice, made_with_stand_ins


class Inner(StrictConfig):
    low: float | None = Field(default=None, gt=0, lt=1)
    high: float | None = Field(default=None, ge=1)
    gate: Literal["open", "shut"] | None = None
    given: float = 2.0


class Other(StrictConfig):
    optional: float | None = None


class Outer(StrictConfig):
    other: Other = Other()
    inner: Inner = Inner()
    word: Literal["first", "second"] = "first"
    section: Annotated[Inner | Other, Field()] = Inner()


def made(config: Outer) -> tuple[float, float, str]:
    low = chosen("low", config.inner.low, undisclosed_by="X")
    high = chosen("high", config.inner.high, undisclosed_by="X")
    gate = chosen("gate", config.inner.gate, undisclosed_by="X")
    if high < 5.0:
        raise ObjectiveError("high is at least 5.")
    return low, high, gate


def test_stand_ins_are_within_what_the_fields_take():
    (low, high, gate), keys = made_with_stand_ins(Outer(), made)
    assert 0.0 < low < 1.0
    assert high >= 5.0
    assert gate == "open"
    assert all(isinstance(one, StandIn) for one in (low, high))
    assert isinstance(gate, StandInWord)
    assert keys == ("inner.low", "inner.high", "inner.gate")


def test_what_was_chosen_stays():
    (low, *_), keys = made_with_stand_ins(Outer(inner=Inner(low=0.25)), made)
    assert low == 0.25
    assert not isinstance(low, StandIn)
    assert keys == ("inner.high", "inner.gate")


def test_nothing_is_filled_where_nothing_is_missing():
    config = Outer(inner=Inner(low=0.5, high=6.0, gate="shut"))
    assert made_with_stand_ins(config, made) == ((0.5, 6.0, "shut"), ())


def test_another_refusal_stays_one():
    with pytest.raises(ObjectiveError, match="at least 5"):
        made_with_stand_ins(Outer(inner=Inner(low=0.5, high=2.0, gate="shut")), made)

    def never(config: Outer) -> None:
        raise UndisclosedError("tau has no default")

    with pytest.raises(UndisclosedError, match="tau"):
        made_with_stand_ins(Outer(), never)


def test_sums_and_differences_with_a_stand_in_are_stand_ins():
    one = StandIn(0.25)
    assert isinstance(1.0 - one, StandIn)
    assert isinstance(1.0 + one, StandIn)
    assert (1.0 - one, 1.0 + one) == (0.75, 1.25)


def test_the_first_choice_of_a_field():
    assert first_choice(Outer.model_fields["word"]) == "first"
