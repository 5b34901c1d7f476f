"""Whether the goal holds in the state that an episode left, whatever the policy says about it."""

from collections.abc import Mapping
from typing import cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Json, State, TaskError, goal_of, read_json, unmet_conditions
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload

__all__ = ["goal_state_verifier", "invalid_actions_verifier", "return_verifier", "won_verifier"]

_ARTIFACT = "final_state.json"
_REVISION = 1


def goal_state_verifier(*, name: str = "goal_state") -> FunctionVerifier:
    """1 where every condition of the task's `info.goal` holds in the final state, else 0."""

    def grade(submission: Submission) -> Grade:
        left = _left(submission)
        try:
            unmet = unmet_conditions(goal_of(gold_payload(submission)), cast("State", left["state"]))
        except TaskError as error:
            raise GoldError(str(error)) from error
        evidence = "; ".join(unmet)[:400] if unmet else f"reached in {left['turns']} turns"
        return Grade(value=float(not unmet), evidence=evidence, components=_counts(left))

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def return_verifier(*, name: str = "return") -> FunctionVerifier:
    """The sum of the rewards that the environment counted; may be negative, and nothing is divided by anything."""

    def grade(submission: Submission) -> Grade:
        left = _left(submission)
        total = left.get("return")
        if not isinstance(total, int | float) or isinstance(total, bool):
            raise GoldError(f"the artifact {_ARTIFACT} holds no number `return`")
        return Grade(value=float(total), evidence=f"{total} in {left['turns']} turns", components=_counts(left))

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def won_verifier(*, name: str = "won") -> FunctionVerifier:
    """1 where the game itself said that it was won, else 0."""

    def grade(submission: Submission) -> Grade:
        left = _left(submission)
        is_won = cast("Mapping[str, Json]", left["state"]).get("is_won")
        if not isinstance(is_won, bool):
            raise GoldError(f"the artifact {_ARTIFACT} does not say whether the game was won")
        evidence = f"{'won' if is_won else 'not won'} in {left['turns']} turns"
        return Grade(value=float(is_won), evidence=evidence, components=_counts(left))

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def invalid_actions_verifier(*, name: str = "invalid_actions") -> FunctionVerifier:
    """How many actions of the episode were not admissible; give it a negative weight."""

    def grade(submission: Submission) -> Grade:
        invalid = _left(submission).get("invalid")
        if not isinstance(invalid, int):
            raise GoldError(f"the artifact {_ARTIFACT} does not count invalid actions")
        return Grade(value=float(invalid), evidence=f"{invalid} invalid actions")

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def _left(submission: Submission) -> Mapping[str, Json]:
    """What the environment left.

    Raises:
        GoldError: where it left nothing that can be read: no doing of the policy.
    """
    raw = submission.artifacts.get(_ARTIFACT)
    if raw is None:
        raise GoldError(f"the episode left no artifact {_ARTIFACT}")
    try:
        left = read_json(raw.decode())
    except ValueError as error:
        raise GoldError(f"the artifact {_ARTIFACT} is no JSON: {error}") from error
    if not isinstance(left, Mapping) or not isinstance(left.get("state"), Mapping) or "turns" not in left:
        raise GoldError(f"the artifact {_ARTIFACT} holds no state")
    return left


def _counts(left: Mapping[str, Json]) -> tuple[NamedValue, ...]:
    counted = {name: left.get(name) for name in ("turns", "invalid")}
    return tuple(NamedValue(name=n, value=float(v)) for n, v in counted.items() if isinstance(v, int))
