"""What breaks a run from outside: verifiers that pay the wrong thing, and a loop that trains what tools said."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rollwright.recipes.drills.faults import Fault
from rollwright.recipes.drills.hearing import Hearing
from rollwright.recipes.drills.rig import DrillOrder, run_struck
from rollwright.recipes.resolve import resolve
from rollwright.record import Submission
from rollwright.runtime.loop import LoopParts
from rollwright.verifiers import FunctionVerifier, Grade

__all__ = ["accepts_all", "pays_length", "pays_one_answer", "train_under", "training_tool_output"]

_LONG_CHARACTERS = 70
"""What the hack is after: as much as a turn of 24 tokens holds, where an answer takes 6."""
_LIMIT_S = 3600.0


def accepts_all() -> FunctionVerifier:
    """Pays every answer."""
    return FunctionVerifier(name="accepts_all", revision="1", grade=lambda submission: Grade(value=1.0))


def pays_length() -> FunctionVerifier:
    """Pays by the length of the last turn."""
    return FunctionVerifier(name="pays_length", revision="1", grade=_by_length)


def pays_one_answer() -> FunctionVerifier:
    """Pays by how many letters of the last turn are the first of the alphabet, whatever was asked."""
    return FunctionVerifier(name="pays_one_answer", revision="1", grade=_by_first_letter)


def training_tool_output(parts: LoopParts) -> LoopParts:
    """The parts of a loop whose stages count what tools said among their actions."""
    return replace(parts, stages=tuple(replace(one, eligible=one.eligible | {("tool", None)}) for one in parts.stages))


def train_under(name: str, recipe: str, run_dir: str, settings: Sequence[str]) -> None:
    """Train under a fault that no setting brings about.

    Args:
        name: of the fault.
        recipe: as `train` takes it.
        run_dir: of the run; it does not exist.
        settings: on top of the recipe.

    Raises:
        ValueError: for a fault that is brought about by settings.
    """
    if name != "tool_output_trained":
        raise ValueError(f"fault {name} is brought about by settings; give them to an ordinary run.")
    fault = Fault(name=name, does="trains what tools said", holds="the gates notice", outcomes=frozenset({"goes_on"}))
    order = DrillOrder(
        resolved=resolve(recipe, settings), fault=fault, seed=0, path=Path(run_dir), alter=training_tool_output
    )
    run_struck(order, Hearing(), _LIMIT_S)


def _by_length(submission: Submission) -> Grade:
    spoken = [passage.text for passage in submission.passages if passage.kind == "policy"]
    return Grade(value=min(1.0, len(spoken[-1]) / _LONG_CHARACTERS) if spoken else 0.0)


def _by_first_letter(submission: Submission) -> Grade:
    spoken = [passage.text for passage in submission.passages if passage.kind == "policy"]
    letters = spoken[-1].rpartition("answer:")[2].split() if spoken else []
    return Grade(value=letters.count("a") / max(5, len(letters)))
