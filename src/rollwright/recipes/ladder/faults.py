"""Faults that the gates must notice: `rollwright ladder LEVEL --fault NAME` is a test of the ladder itself."""

from dataclasses import dataclass

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import closest

__all__ = ["FAULTS", "LadderFault", "fault_named"]

_FAULTY = "rollwright.recipes.ladder.faulty"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderFault:
    """One row."""

    name: str
    does: str
    level: int
    """The smallest that must notice it."""
    gate: str
    """Of that level, which must fail."""
    settings: tuple[str, ...] = ()
    """That bring it about from outside."""
    alters_loop: bool = False
    """True where no setting can: the loop's own parts are altered (`faulty`)."""


FAULTS: tuple[LadderFault, ...] = (
    LadderFault(
        name="wrong_denominator",
        does="divides the loss by a count that is one too large",
        level=0,
        gate="equations",
    ),
    LadderFault(
        name="tool_output_trained",
        does="trains what the tools said as if the policy had",
        level=1,
        gate="observations",
        alters_loop=True,
    ),
    LadderFault(
        name="verifier_accepts_all",
        does="puts a verifier that pays every answer in the place of the recipe's",
        level=2,
        gate="agreement",
        settings=(f'verifier.parts=[{{kind="custom", path="{_FAULTY}:accepts_all"}}]',),
    ),
    LadderFault(
        name="length_hack",
        does="puts a verifier that pays by the length of an answer in the place of the recipe's",
        level=2,
        gate="length_high",
        settings=(f'verifier.parts=[{{kind="custom", path="{_FAULTY}:pays_length"}}]',),
    ),
    LadderFault(
        name="entropy_collapse",
        does="pays one and the same answer whatever was asked, at four times the learning rate",
        level=2,
        gate="entropy_low",
        settings=(
            f'verifier.parts=[{{kind="custom", path="{_FAULTY}:pays_one_answer"}}]',
            "learner.learning_rate=4e-3",
        ),
    ),
)


def fault_named(name: str, level: int) -> LadderFault:
    """A fault, for a level that must notice it.

    Raises:
        RecipeError: for a name that there is not, or a level that cannot.
    """
    by_name = {fault.name: fault for fault in FAULTS}
    if name not in by_name:
        near = closest(name, tuple(by_name), 0.4)
        hint = f" Did you mean {near}?" if near else ""
        raise RecipeError(f"no fault {name!r} of the ladder; there are {', '.join(by_name)}.{hint}")
    fault = by_name[name]
    if fault.level != level:
        raise RecipeError(f"fault {name} is for level {fault.level}, whose gate {fault.gate!r} must fail; give that.")
    return fault
