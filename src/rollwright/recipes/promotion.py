"""A checkpoint leaves its run only through the run's gates: evaluated, judged, then written whole with its evidence.

checkpoint ──► frozen protocol, where that was not asked yet ──► gates ──► all passed? ──► DEST: weights, card, proof
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rollwright.evaluation.gates_declared import gates_of
from rollwright.evaluation.gates_of_runs import JudgedGate, judge_run, records_of
from rollwright.evidence import Checkpoint, Event, RunFolder, StoredEvaluation, stored_evaluations
from rollwright.evidence.gates import record_gates
from rollwright.recipes.build.alarms import seen_alarms
from rollwright.recipes.build.start import checkpoint_at
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.promoted_folder import PromotedCheckpoint, write_promoted
from rollwright.recipes.resolve import resolve_text
from rollwright.recipes.runs import EvaluationOrder, evaluate_run
from rollwright.runtime.observers import Observer

__all__ = ["PROMOTED", "REFUSED", "Promotion", "PromotionOrder", "promote"]

PROMOTED = "promoted"
"""The event of a checkpoint that passed."""
REFUSED = "promotion_refused"
"""The event of one that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionOrder:
    """What was asked for."""

    run: Path
    step: int | None
    """Of the checkpoint; None: the newest."""
    destination: Path
    """A folder that does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What came of it."""

    step: int
    destination: Path
    judged: tuple[JudgedGate, ...]

    @property
    def is_written(self) -> bool:
        """True where every gate passed; otherwise nothing was written."""
        return all(one.verdict.outcome == "passed" for one in self.judged)


def promote(order: PromotionOrder, observer: Observer) -> Promotion:
    """Judge a checkpoint by its run's gates, and write it where all of them passed.

    Args:
        order: which, and where to.
        observer: hears of the evaluation, where one is made.

    Raises:
        RecipeError: for a run without gates, a checkpoint that is not there, or a destination that is taken.
        RunPausedError: where an alarm waits that nobody has looked at.
    """
    _assert_free(order.destination)
    with RunFolder.open(order.run) as folder:
        if not gates_of(folder.manifests[0]):
            raise RecipeError(_no_gates(order.run))
        step = checkpoint_at(folder, order.step).step
        recipe = resolve_text(folder.recipe_toml, origin=f"run {order.run.name}").recipe
        seen_alarms(folder, recipe, step).refuse_unread(None)
        is_evaluated = _evaluated(folder, step) is not None
    if not is_evaluated:
        asked = EvaluationOrder(run=order.run, step=step, tasks=None, samples=None, temperature=None)
        evaluate_run(asked, observer)
    with RunFolder.open(order.run, "write") as folder:
        return _judged(folder, checkpoint_at(folder, step), order.destination)


def _judged(folder: RunFolder, checkpoint: Checkpoint, destination: Path) -> Promotion:
    evaluated = _evaluated(folder, checkpoint.step)
    if evaluated is None:
        raise RecipeError(
            f"the protocol that {folder.path} was begun with cannot be asked of step {checkpoint.step} any more: "
            "environment, verifiers or tasks are others in the segment that it is in now. Promote a checkpoint that "
            "was evaluated before that, or start a new run."
        )
    now = datetime.now(UTC)
    judged = judge_run(folder.path, checkpoint.step)
    record_gates(folder.path, records_of(judged, "promotion", now))
    promotion = Promotion(step=checkpoint.step, destination=destination, judged=judged)
    if not promotion.is_written:
        folder.record_event(_event(REFUSED, promotion, now))
        return promotion
    promoted = PromotedCheckpoint(
        folder=folder, checkpoint=checkpoint, evaluated=evaluated, judged=judged, promoted_at=now
    )
    # The event before the folder has its name: no promotion is ever without one.
    write_promoted(promoted, destination, before_naming=lambda: folder.record_event(_event(PROMOTED, promotion, now)))
    return promotion


def _evaluated(folder: RunFolder, step: int) -> StoredEvaluation | None:
    """The first evaluation of a step by the run's own protocol."""
    sha256 = folder.manifests[0].evaluation.protocol_sha256
    found = stored_evaluations(folder)
    return next((one for one in found if one.step == step and one.protocol_sha256 == sha256), None)


def _event(kind: str, promotion: Promotion, at: datetime) -> Event:
    failed = [one for one in promotion.judged if one.verdict.outcome != "passed"]
    text = (
        f"the checkpoint of step {promotion.step} passed {_names(promotion.judged)} and goes to {promotion.destination}"
        if kind == PROMOTED
        else f"the checkpoint of step {promotion.step} stays here: {_names(failed)} did not pass"
    )
    fields = {"destination": str(promotion.destination)} | {
        f"gate.{one.gate.name}": one.verdict.outcome for one in promotion.judged
    }
    return Event(at=at, kind=kind, text=text, step=promotion.step, fields=fields)


def _names(judged: Sequence[JudgedGate]) -> str:
    return ", ".join(one.gate.name for one in judged)


def _assert_free(destination: Path) -> None:
    if destination.is_dir() and not any(destination.iterdir()):
        return
    if destination.exists():
        raise RecipeError(f"{destination} is taken; give a folder that does not exist yet.")


def _no_gates(run: Path) -> str:
    return (
        f"{run} has no gates, and a checkpoint is promoted only through gates that were fixed before the run. Declare "
        "some in its recipe and train anew, such as [[gates]] name = 'held out' kind = 'evaluation' measure = "
        "'success' bound = 'at_least' limit = 0.6 source = 'where the limit comes from' (docs/how-to/gate-a-run.md)."
    )
