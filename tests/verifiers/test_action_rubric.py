"""A rubric of actions as a verifier's verdict: raw parts stored, the reward bounded."""

import asyncio

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.rewards.action_rubric import ActionRubric, rubric_of_actions
from rollwright.record import NamedValue
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part, Role, VerifierSetupError
from tests.verifiers.submissions import submitted, verdict_of

RAW = {"tool_accuracy": 0.9, "information_gain": 1.0, "progress": 0.8, "repeated_error": 0.3}


@pytest.mark.row("S304")
def test_the_four_parts_are_stored_raw_and_their_reward_stays_within_its_bound():
    rubric = ActionRubric(**RAW)

    def grade(_submission):
        components = tuple(NamedValue(name=name, value=value) for name, value in rubric.parts().items())
        return Grade(value=rubric_of_actions(rubric, weight=3.0, bound=0.5), components=components)

    verdict = verdict_of(FunctionVerifier(name="rubric", revision="1", grade=grade), submitted("done"))
    assert {part.name: part.value for part in verdict.components} == RAW
    assert verdict.outcome == 0.5
    assert rubric_of_actions(rubric, weight=0.3, bound=0.5) == pytest.approx(0.3 * 2.4 / 3)


def test_repeated_errors_are_taken_off_down_to_the_bound():
    worst = ActionRubric(tool_accuracy=0, information_gain=0, progress=0, repeated_error=1)
    assert rubric_of_actions(worst, weight=9.0, bound=0.5) == -0.5


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_part_beyond_its_bounds_is_refused_by_name(name, value):
    with pytest.raises(ObjectiveError, match=f"{name} is"):
        ActionRubric(**{**RAW, name: value})


def test_the_weight_is_chosen_and_the_bound_is_one():
    with pytest.raises(ObjectiveError, match="weight has no default: the report on Nanbeige"):
        rubric_of_actions(ActionRubric(**RAW), bound=0.5)
    with pytest.raises(ObjectiveError, match="bound is 0"):
        rubric_of_actions(ActionRubric(**RAW), weight=1.0, bound=0)


@pytest.mark.row("S416")
def test_all_the_information_there_is_pays_less_than_the_outcome_whatever_weight_it_is_given():
    most = ActionRubric(tool_accuracy=0, information_gain=1, progress=0, repeated_error=0)
    gain = rubric_of_actions(most, weight=1e6, bound=0.9)

    def part(name: str, value: float, weight: float, role: Role) -> Part:
        made = FunctionVerifier(name=name, revision="1", grade=lambda _submission: Grade(value=value))
        return Part(verifier=made, weight=weight, role=role)

    def reward(outcome: float, shaping: float) -> float:
        parts = [part("outcome", outcome, 1.0, "outcome"), part("gain", shaping, 1.0, "shaping")]
        (score,) = asyncio.run(Composition(parts).score([submitted("done")]))
        return float(score.outcome)

    assert gain == 0.9
    assert reward(0.0, gain) < reward(1.0, 0.0)
    with pytest.raises(VerifierSetupError, match="shaping"):
        Composition([part("outcome", 1.0, 1.0, "outcome"), part("gain", gain, 1.5, "shaping")])
