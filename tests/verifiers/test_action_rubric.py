"""A rubric of actions as a verifier's verdict: raw parts stored, the reward bounded."""

import pytest

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.rewards.action_rubric import ActionRubric, rubric_of_actions
from rollwright.record import NamedValue
from rollwright.verifiers import FunctionVerifier, Grade
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
