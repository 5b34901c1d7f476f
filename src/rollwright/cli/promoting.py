"""`eval --promote`, and the verdicts of gates on the screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.screen import JsonScreen, Screen
from rollwright.evaluation.gates_of_runs import JudgedGate
from rollwright.evidence.gates import GateRecord, read_gates

__all__ = ["promote_checkpoint", "show_kept_gates"]


def promote_checkpoint(
    run: Path, step: int | None, destination: Path, screen: Screen, *, asked: Mapping[str, object]
) -> None:
    """Promote a checkpoint, or say which gates it did not pass.

    Args:
        run: its folder.
        step: of the checkpoint; None: the newest.
        destination: the folder to write.
        screen: shows what happens.
        asked: options that would make it another protocol, with what was given.

    Raises:
        typer.Exit: with code 1 where a gate did not pass.
    """
    others = [name for name, value in asked.items() if value is not None]
    if others:
        raise typer.BadParameter(f"--promote judges by the run's own protocol; leave {', '.join(others)} out")
    from rollwright.recipes.promotion import PromotionOrder, promote

    try:
        promotion = promote(PromotionOrder(run=run, step=step, destination=destination), screen)
    finally:
        screen.close()
    _show([_row(one) for one in promotion.judged], screen, f"gates of step {promotion.step}")
    if isinstance(screen, JsonScreen):
        print_json(
            {
                "step": promotion.step,
                "promoted": promotion.is_written,
                "destination": str(destination) if promotion.is_written else None,
            }
        )
    elif promotion.is_written:
        screen.say(f"promoted: {destination} (README.md is its card, evidence.json its proof)")
    else:
        screen.say("not promoted: nothing was written")
    if not promotion.is_written:
        raise typer.Exit(FAILED)


def show_kept_gates(run: Path, screen: Screen) -> None:
    """The newest verdicts that a run holds of its gates; nothing where it has none."""
    kept = [one for one in read_gates(run) if one.purpose == "run"]
    last = max((one.step for one in kept), default=0)
    newest = [one for one in kept if one.step == last]
    if newest:
        _show([_kept_row(one) for one in newest], screen, f"gates at step {last}")


_Row = tuple[str, str, str, str, str]


def _show(rows: Sequence[_Row], screen: Screen, title: str) -> None:
    if isinstance(screen, JsonScreen):
        for gate, what, limit, outcome, because in rows:
            print_json({"gate": gate, "what": what, "limit": limit, "outcome": outcome, "because": because})
        return
    screen.table(("gate", "what", "limit", "verdict", "because"), rows, title=title)


def _row(one: JudgedGate) -> _Row:
    return one.gate.name, one.what, str(one.verdict.bound), one.verdict.outcome, one.verdict.because


def _kept_row(one: GateRecord) -> _Row:
    return one.verdict.gate, one.what, str(one.verdict.bound), one.verdict.outcome, one.verdict.because
