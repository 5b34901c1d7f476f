"""`replay`: a run once more, by its own schedule."""

from pathlib import Path
from typing import Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Run, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen

__all__ = ["replay"]


def replay(
    run: Run,
    *,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="The new run folder; by default NAME-replay beside the run.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Train a run again by its recorded schedule, and say whether the same weights came of it.

    Every turn is drawn anew under the versions of the weights that drew it then, and every step trains the groups that
    it trained then, also where the run was asynchronous. Tools and verifiers run again. The first token or
    log-probability that differs ends the replay with its place; exit code 1 where the weights differ.

    ```
    rollwright replay runs/arithmetic-tool-seed0
    ```
    """
    from rollwright.recipes.replays import replay_run

    import_from_here()
    screen = open_screen(json)
    try:
        result = replay_run(run, run_dir, screen)
    finally:
        screen.close()
    if isinstance(screen, JsonScreen):
        print_json(
            {
                "run": result.run_dir,
                "source": result.source,
                "steps": result.steps,
                "seconds": round(result.seconds, 3),
                "is_equal": result.is_equal,
                "weights_sha256": result.weights_sha256,
                "source_sha256": result.source_sha256,
            }
        )
    else:
        what = "the same weights" if result.is_equal else "other weights"
        screen.say(f"{result.steps} steps replayed in {result.seconds:.0f} s: {what} as {result.source}")
        screen.say(f"weights {result.weights_sha256[:16]}, stored {result.source_sha256[:16]}")
    if not result.is_equal:
        raise typer.Exit(FAILED)
