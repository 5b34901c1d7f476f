"""Half of all combinations of some choices, and what each choice did to the outcome.

The last factor is the product of the others, so the design has resolution V for five factors: what it cannot tell
apart is a choice from the joint effect of the four others.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

from rollwright.recipes.ladder.intervals import difference
from rollwright.recipes.ladder.plan import Factorial, RunSpec
from rollwright.recipes.ladder.report import Table
from rollwright.recipes.ladder.view import RunView

__all__ = ["PREFIX", "effects_table", "signs_of", "specs_of"]

PREFIX = "factorial "


def signs_of(num_factors: int) -> tuple[tuple[int, ...], ...]:
    """The rows of the design: −1 is low, 1 is high.

    Args:
        num_factors: at least 2.
    """
    return tuple((*row, prod(row)) for row in product((-1, 1), repeat=num_factors - 1))


def specs_of(factorial: Factorial) -> tuple[RunSpec, ...]:
    """One run a row; its name has a letter for each choice that is high."""
    return tuple(
        RunSpec(
            name=PREFIX + _letters(factorial, row),
            role="compared",
            stages="rl",
            start=factorial.start,
            settings=tuple(
                setting
                for factor, sign in zip(factorial.factors, row, strict=True)
                for setting in (factor.high_settings if sign > 0 else factor.low_settings)
            ),
        )
        for row in signs_of(len(factorial.factors))
    )


def effects_table(factorial: Factorial, views: Sequence[RunView]) -> Table:
    """What a choice did: mean held-out success where it is high less where it is low, paired by task.

    Args:
        factorial: the design.
        views: of all its runs.
    """
    by_name = {view.run.spec.name: view.mean_by_task(view.after, lambda one: float(one.is_success)) for view in views}
    rows = [(row, by_name[PREFIX + _letters(factorial, row)]) for row in signs_of(len(factorial.factors))]
    tasks = set(rows[0][1]).intersection(*(scores for _, scores in rows))
    half = len(rows) / 2
    effects: list[tuple[str, ...]] = []
    for place, factor in enumerate(factorial.factors):
        sides = [
            {task: sum(scores[task] for row, scores in rows if row[place] == sign) / half for task in tasks}
            for sign in (1, -1)
        ]
        found = difference(sides[0], sides[1], factor.name)
        said = "—" if found.value is None else f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        effects.append((factor.letter, factor.name, factor.low, factor.high, said))
    title = f"Effects on held-out success, one seed a run. {factorial.confounded}"
    return Table(title=title, header=("factor", "choice", "low", "high", "high less low"), rows=tuple(effects))


def _letters(factorial: Factorial, row: Sequence[int]) -> str:
    letters = "".join(f.letter for f, sign in zip(factorial.factors, row, strict=True) if sign > 0)
    return letters or "none"
