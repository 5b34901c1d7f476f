"""`score`: the stored episodes of a run under other verifiers, or the same, without a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Run, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, Screen, interval

if TYPE_CHECKING:
    from rollwright.recipes.scoring import Rescored, ScoreResult
    from rollwright.verifiers.scales import ComponentScale

__all__ = ["score", "show_scales"]

_SHOWN_CHANGES = 10


def score(
    run: Run,
    *,
    verifier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|MODULE:NAME",
            help="`recipe` (those of the run's recipe), a verifier that ships, or `package.module:callable`, which "
            "returns a verifier. Repeatable.",
            show_default="recipe",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the new verdicts.")] = "scored again",
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Write the verdicts to this file, one JSON object a line, and leave the run as it is."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Score the stored episodes of a run again, without a model, and say what changed.

    The verdicts become a scoring of the run with a number of its own; those that were trained on stay as they are
    (scoring 0). Unchanged verifiers give the same verdicts.

    ```
    rollwright score runs/arithmetic-tool-seed0
    rollwright score runs/arithmetic-tool-seed0 --verifier my_package.grading:strict --out strict.jsonl
    rollwright score runs/arithmetic-tool-seed0 --reason "the tolerance was too wide" --json
    ```
    """
    from rollwright.recipes.scoring import OF_THE_RECIPE, ScoreOrder, score_run

    import_from_here()
    asked = tuple(verifier or (OF_THE_RECIPE,))
    result = score_run(ScoreOrder(run=run, verifiers=asked, reason=reason, out=out))
    _show(result, open_screen(json))


def show_scales(scales: "tuple[ComponentScale, ...]", screen: Screen) -> None:
    """The raw parts of the reward by source, and those on another scale than elsewhere."""
    from rollwright.verifiers.scales import foreign_scales

    if not scales or isinstance(screen, JsonScreen):
        return
    rows = [(s.component, s.source, s.num, s.mean, s.std, s.low, s.high, s.weight) for s in scales]
    columns = ("part", "source", "attempts", "mean", "std", "lowest", "highest", "weight")
    screen.table(columns, rows, title="parts of the reward, raw, by source of the tasks")
    for scale in foreign_scales(scales):
        screen.say(
            f"note: {scale.component} reaches {scale.size:g} in {scale.source}, another scale than in the other "
            "sources; one of them will decide what is learned"
        )


def _show(result: "ScoreResult", screen: Screen) -> None:
    if isinstance(screen, JsonScreen):
        _print(result)
        return
    rows = [
        (r.verifier, r.num, r.num_same, interval(*_agreement(r)), r.num_errors, f"its {r.compared_with} before")
        for r in result.rescored
    ]
    columns = ("verifier", "scored", "identical", "same success", "no number", "compared with")
    screen.table(columns, rows, title=f"{result.num_trajectories} trajectories of {result.run_dir}")
    changes = [(r.verifier, c.trajectory_id, c.before, c.after, c.evidence) for r in result.rescored for c in r.changes]
    if changes:
        screen.table(
            ("verifier", "trajectory", "before", "after", "evidence"),
            changes[:_SHOWN_CHANGES],
            title=f"{len(changes)} changed, the first {min(len(changes), _SHOWN_CHANGES)}",
        )
    show_scales(result.scales, screen)
    kept = "the run is as it was" if result.scoring is None else f"kept as scoring {result.scoring} of the run"
    screen.say(f"{result.seconds:.1f} s; {kept}")


def _print(result: "ScoreResult") -> None:
    for r in result.rescored:
        for c in r.changes:
            print_json(
                {
                    "event": "change",
                    "verifier": r.verifier,
                    "trajectory_id": c.trajectory_id,
                    "before": c.before,
                    "after": c.after,
                    "revision_before": c.revision_before,
                    "evidence": c.evidence,
                }
            )
    print_json(
        {
            "run": result.run_dir,
            "scoring": result.scoring,
            "trajectories": result.num_trajectories,
            "seconds": round(result.seconds, 3),
            "verifiers": [_summary(r) for r in result.rescored],
            "scales": [
                {
                    "component": s.component,
                    "source": s.source,
                    "num": s.num,
                    "mean": s.mean,
                    "std": s.std,
                    "low": s.low,
                    "high": s.high,
                    "weight": s.weight,
                }
                for s in result.scales
            ],
        }
    )


def _summary(r: "Rescored") -> dict[str, object]:
    value, low, high = _agreement(r)
    return {
        "verifier": r.verifier,
        "revision": r.revision,
        "compared_with": r.compared_with,
        "num": r.num,
        "same": r.num_same,
        "agreement": value,
        "low": low,
        "high": high,
        "errors": r.num_errors,
    }


def _agreement(r: "Rescored") -> tuple[float | None, float, float]:
    return (r.num_agreeing / r.num_numbers if r.num_numbers else None), r.agreement.low, r.agreement.high
