"""`recipe explain`: an objective as formulas with its numbers."""

from collections.abc import Iterator
from json import dumps
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, Settings

if TYPE_CHECKING:  # what explains loads torch, which help and errors do without
    from rollwright.algorithms.describe import PartDescription
    from rollwright.recipes.explain import Explanation

__all__ = ["recipe_explain"]

_HEADING = 14
"""Characters before what a line says."""
_LEGEND = (
    "c, o, b, f, q: log-probabilities under the current, proximal, behavior, reference and teacher policy; R reward, "
    "A advantage, ρ ratio, J what is maximised",
    "N tokens, B rows, P prompts of an update; n_i tokens of the row; sg: no gradient goes through",
    "loss = −Σ weight·correction·J over kept tokens + Σ coefficient·weight·term over action tokens",
)


def recipe_explain(
    name: Annotated[
        str,
        typer.Argument(
            help="A recipe's name, the path of a .toml file, or an objective such as gspo.", show_default=False
        ),
    ],
    *,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Print what an objective optimises: each part as a formula with its numbers, and where it comes from.

    Labels: D disclosed by its source, C seen in public code, I inferred or chosen here, U unknown. A number that its
    source names and does not give is undisclosed; where it is left out it is shown as `?`.

    ```
    rollwright recipe explain arithmetic-tool
    rollwright recipe explain gspo
    rollwright recipe explain cispo --set objective.surrogate.high=5
    ```
    """
    from rollwright.recipes.explain import explain

    found = explain(name, settings or ())
    if json:
        for line in _json_lines(found):
            print_json(line)
        return
    console = Console()
    for line in _lines(found):
        for shown in _broken(line, console.width) if console.is_terminal else [line]:
            console.print(Text(shown), soft_wrap=True)


def _lines(found: "Explanation") -> Iterator[str]:
    yield found.title
    yield ""
    for part in found.description.walk():
        yield _part_line(part)
    yield ""
    yield from _denominator_lines(found)
    yield f"needs         {', '.join(found.description.needs) or 'nothing beside the current scores'}"
    if found.description.before_credit:
        yield f"before credit {', '.join(found.description.before_credit)}"
    if found.unfed is not None:
        yield f"not trainable {found.unfed}: no stage of a run makes that yet"
    for part in found.description.walk():
        for one in part.undisclosed:
            yield f"undisclosed   {part.place}: {one.name} = {one.value}; U: {one.who} does not give it"
    for one in found.left_out:
        yield f"left out      {one}: choose it before training"
    if found.values:
        yield ""
        for one in found.values:
            label = f", {one.label}" if one.label else ""
            yield f"  {one.key} = {dumps(one.value)}  ({one.origin}{label})"
    yield ""
    yield from _LEGEND


def _broken(line: str, width: int) -> list[str]:
    """A line of a terminal's width, its rest below the words behind the heading."""
    behind = " " * _HEADING
    return wrap(line, width, subsequent_indent=behind, break_long_words=False, break_on_hyphens=False) or [""]


def _part_line(part: "PartDescription") -> str:
    from rollwright.recipes.explain import labels_of

    depth = part.place.count(".")
    head = f"{'  ' * depth}{part.place.rpartition('.')[2] if depth else part.place}"
    said = f"{head:<{_HEADING - 1}} {part.method or '':<5} {part.formula}"
    return f"{said}   [{' '.join(labels_of(part.source))}: {part.source}]" if part.source else said


def _denominator_lines(found: "Explanation") -> Iterator[str]:
    from rollwright.algorithms.example_rows import EXAMPLE_LENGTHS

    lengths = ", ".join(map(str, EXAMPLE_LENGTHS))
    for component, masses in found.masses.items():
        said = ", ".join(f"{mass:.6g}" for mass in masses)
        yield (
            f"denominator   {component}: rows of {lengths} tokens, the first two of one prompt, weigh {said}; together "
            f"{sum(masses):.6g}"
        )


def _json_lines(found: "Explanation") -> Iterator[dict[str, object]]:
    from rollwright.algorithms.example_rows import EXAMPLE_LENGTHS
    from rollwright.recipes.explain import labels_of

    for part in found.description.walk():
        yield {
            "part": part.place,
            "role": part.role,
            "name": part.name,
            "method": part.method,
            "formula": part.formula,
            "numbers": dict(part.numbers),
            "source": part.source,
            "labels": list(labels_of(part.source)),
            "undisclosed": [{"name": one.name, "who": one.who, "value": one.value} for one in part.undisclosed],
        }
    for component, masses in found.masses.items():
        yield {"denominator": component, "row_tokens": list(EXAMPLE_LENGTHS), "row_masses": list(masses)}
    for one in found.values:
        yield {"key": one.key, "value": one.value, "origin": one.origin, "label": one.label}
    yield {
        "objective": found.description.name,
        "needs": list(found.description.needs),
        "before_credit": list(found.description.before_credit),
        "left_out": list(found.left_out),
        "not_trainable": found.unfed,
    }
