"""`train`, `resume` and `eval`. What needs torch is imported once the arguments are known to be right."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rollwright.cli.looking import show_resolved
from rollwright.cli.options import Json, Run, Settings, import_from_here, open_screen
from rollwright.cli.screen import Screen
from rollwright.recipes.resolve import Resolved, resolve

__all__ = ["evaluate", "resume", "train"]


Recipe = Annotated[
    str | None,
    typer.Argument(
        help="A recipe's name (`rollwright recipe list`), the path of a .toml file, or `package.module:callable` of a "
        "world, which trains by the recipe tiny-agent. What a recipe names by `module:name` may lie in the current "
        "folder.",
        show_default=False,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Short for `--set run.seed=N`.", show_default=False)]
NewFolder = Annotated[
    Path | None,
    typer.Option(help="The new run folder; by default `runs/NAME-seedN`, with a number if taken.", show_default=False),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Learn again from the stored episodes of RUN instead of sampling; without RECIPE, by its recipe.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print each resolved value with its origin and start nothing.")]
RolloutsOnly = Annotated[
    bool, typer.Option("--rollouts-only", help="Sample and record the first batch of each kind; learn nothing.")
]


def train(  # noqa: PLR0913 - each parameter is an option that a person may give
    recipe: Recipe = None,
    *,
    settings: Settings = None,
    seed: Seed = None,
    run_dir: NewFolder = None,
    from_run: Source = None,
    dry_run: DryRun = False,
    rollouts_only: RolloutsOnly = False,
    json: Json = False,
) -> None:
    """Train by a recipe, and say what was learned.

    The run's folder holds everything that it did. Ctrl-C once finishes the step and saves; twice stops at once.

    ```
    rollwright train arithmetic-tool
    rollwright train arithmetic-tool --dry-run
    rollwright train arithmetic-tool --seed 1 --set run.steps=20 --run-dir runs/short
    rollwright train my_package.my_world:load
    rollwright train --from runs/short --run-dir runs/again
    ```
    """
    import_from_here()
    chosen = [*(settings or ()), *([] if seed is None else [f"run.seed={seed}"])]
    resolved = _resolved(recipe, from_run, chosen)
    screen = open_screen(json)
    if dry_run:
        from rollwright.recipes.build.objective import refuse_untrainable

        show_resolved(resolved, screen)
        refuse_untrainable(resolved.recipe)
        return
    from rollwright.cli.promoting import show_kept_gates
    from rollwright.cli.results import show_result
    from rollwright.cli.scoring import show_scales
    from rollwright.recipes.runs import TrainOrder, train_run
    from rollwright.recipes.scoring import scales_of_run

    with _closing(screen):
        order = TrainOrder(resolved=resolved, run_dir=run_dir, source=from_run, is_rollouts_only=rollouts_only)
        result = train_run(order, screen)
    show_scales(scales_of_run(Path(result.run_dir)), screen)
    show_kept_gates(Path(result.run_dir), screen)
    show_result(result, screen)


AcceptChanges = Annotated[
    bool,
    typer.Option(
        "--accept-changes",
        help="Go on although defaults have changed since; the run keeps the values that it began with.",
    ),
]
NewSegment = Annotated[
    str | None,
    typer.Option(
        "--new-segment",
        metavar="REASON",
        help="Go on although code, data, environment, verifiers or the folder's recipe.toml have changed: a new "
        "segment of the run begins, with its own manifest and this reason.",
        show_default=False,
    ),
]
Acknowledge = Annotated[
    str | None,
    typer.Option(
        metavar="WHY",
        help="Go on with a run that an alarm paused; the reason is kept with the run, and the alarm pauses it only "
        "when it rises anew.",
        show_default=False,
    ),
]


def resume(
    run: Run,
    *,
    settings: Settings = None,
    accept_changes: AcceptChanges = False,
    new_segment: NewSegment = None,
    acknowledge: Acknowledge = None,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed, from its last saved step.

    The recipe is the stored one; `--set` gives it the secrets that it was stored without, and nothing else. Steps that
    were not saved never happened; they are done again, and in the deterministic mode they come out the same.

    ```
    rollwright resume runs/arithmetic-tool-seed0
    rollwright resume runs/arithmetic-tool-seed0 --new-segment "the format check forgives a trailing dot"
    ```
    """
    from rollwright.recipes.stored import refuse_changed_defaults

    import_from_here()
    if not accept_changes and new_segment is None:
        refuse_changed_defaults(run, settings or ())
    from rollwright.cli.promoting import show_kept_gates
    from rollwright.cli.results import show_result
    from rollwright.cli.scoring import show_scales
    from rollwright.recipes.runs import resume_run
    from rollwright.recipes.scoring import scales_of_run

    screen = open_screen(json)
    with _closing(screen):
        result = resume_run(run, screen, new_segment=new_segment, acknowledgment=acknowledge, settings=settings or ())
    show_scales(scales_of_run(Path(result.run_dir)), screen)
    show_kept_gates(Path(result.run_dir), screen)
    show_result(result, screen)


Step = Annotated[int | None, typer.Option(min=0, help="Of the checkpoint; by default the newest.", show_default=False)]
Tasks = Annotated[int | None, typer.Option(min=1, help="Held-out tasks; by default the recipe's.", show_default=False)]
Samples = Annotated[
    int | None, typer.Option(min=1, help="Attempts at each; by default the recipe's.", show_default=False)
]
Temperature = Annotated[
    float | None, typer.Option(min=0.0, help="By default the recipe's; 0 is greedy.", show_default=False)
]
Protocol = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A protocol that ships (greedy, avg-at-4, pass-at-16, gold-numeric, learned-by-heart) or the path of "
        "a .toml file; by default those of the recipe.",
        show_default=False,
    ),
]
Promote = Annotated[
    Path | None,
    typer.Option(
        metavar="DEST",
        help="Judge the checkpoint by the run's gates and, where all passed, write it to DEST with a card and its "
        "evidence; under the run's own protocol alone.",
        show_default=False,
    ),
]


def evaluate(  # noqa: PLR0913 - each parameter is an option that a person may give
    run: Run,
    *,
    step: Step = None,
    tasks: Tasks = None,
    samples: Samples = None,
    temperature: Temperature = None,
    protocol: Protocol = None,
    promote: Promote = None,
    json: Json = False,
) -> None:
    """Evaluate a checkpoint of a run on held-out tasks and add the result to the run.

    With other tasks, samples or temperature it is another protocol, with a digest of its own: numbers under different
    digests do not compare.

    ```
    rollwright eval runs/arithmetic-tool-seed0
    rollwright eval runs/arithmetic-tool-seed0 --step 200 --samples 8
    rollwright eval runs/arithmetic-tool-seed0 --temperature 0 --json
    rollwright eval runs/arithmetic-tool-seed0 --protocol pass-at-16
    rollwright eval runs/arithmetic-tool-seed0 --promote models/calculator
    ```
    """
    from rollwright.cli.promoting import promote_checkpoint
    from rollwright.cli.results import show_evaluation
    from rollwright.recipes.runs import EvaluationOrder, evaluate_run

    import_from_here()
    screen = open_screen(json)
    if promote is not None:
        asked = {"--tasks": tasks, "--samples": samples, "--temperature": temperature, "--protocol": protocol}
        promote_checkpoint(run, step, promote, screen, asked=asked)
        return
    with _closing(screen):
        order = EvaluationOrder(
            run=run, step=step, tasks=tasks, samples=samples, temperature=temperature, protocol=protocol
        )
        evaluation = evaluate_run(order, screen)
    show_evaluation(evaluation, screen)


def _resolved(recipe: str | None, source: Path | None, settings: Sequence[str]) -> Resolved:
    if recipe is not None:
        return resolve(recipe, settings)
    if source is None:
        raise typer.BadParameter("give a RECIPE, such as arithmetic-tool (`rollwright recipe list`), or --from RUN")
    from rollwright.recipes.runs import stored_recipe

    return stored_recipe(source, settings)


@contextmanager
def _closing(screen: Screen) -> Generator[None]:
    """Leave the terminal as it was, whatever happens."""
    try:
        yield
    finally:
        screen.close()
