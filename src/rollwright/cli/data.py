"""`data`: what tasks hold, beside what is trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json, import_from_here, open_screen
from rollwright.cli.screen import JsonScreen, PersonScreen, interval

if TYPE_CHECKING:
    from rollwright.recipes.overlaps import OverlapResult
    from rollwright.tasks.contamination import AskedText

__all__ = ["data_overlap"]

_SHOWN_CHARACTERS = 300
_SOURCE = "`RECIPE:train`, `RECIPE:held_out`, a .jsonl or .parquet file, or a run folder, also with `:train`."


Field = Annotated[str | None, typer.Option(help="Of a file's rows: where the task stands.", show_default=False)]
EmbeddingModel = Annotated[
    Path | None,
    typer.Option(help="Folder of an encoder; by it the nearest tasks by meaning are shown.", show_default=False),
]
Limit = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Exit code 1 where a larger share of B leaked.", show_default=False),
]
NearLimit = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Likewise, of short tasks that are nearly another.", show_default=False),
]


def data_overlap(  # noqa: PLR0913 - each parameter is an option that a person may give
    first: Annotated[str, typer.Argument(metavar="A", help=f"What is trained on: {_SOURCE}", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="What is held out, likewise.", show_default=False)],
    *,
    words: Annotated[int, typer.Option(min=2, help="Length of a run of words.")] = 13,
    characters: Annotated[
        int, typer.Option(min=2, help="Length of a run of characters, for tasks of fewer words.")
    ] = 5,
    near: Annotated[float, typer.Option(min=0.0, max=1.0, help="Shared runs of characters that make a copy.")] = 0.8,
    field: Field = None,
    embedding_model: EmbeddingModel = None,
    limit: Limit = None,
    near_limit: NearLimit = None,
    worst: Annotated[int, typer.Option(min=0, help="Pairs that are shown.")] = 20,
    json: Json = False,
) -> None:
    """Look for the tasks of B in A: equal texts, runs of 13 words in common, near copies of short tasks, neighbors.

    A task leaked where its text is that of a task of A, case, signs and blanks aside, or where both share a run of
    words. Runs that a tenth of A or B has are wording and do not count.

    ```
    rollwright data overlap arithmetic-tool:train arithmetic-tool:held_out
    rollwright data overlap train.jsonl test.jsonl --limit 0
    rollwright data overlap runs/arithmetic-tool-seed0 benchmark.parquet --field problem --json
    ```
    """
    from rollwright.recipes.overlaps import OverlapOrder, look_for_overlap
    from rollwright.tasks.contamination import OverlapRules

    import_from_here()
    rules = OverlapRules(words=words, characters=characters, near=near)
    order = OverlapOrder(
        first=first, second=second, rules=rules, field=field, embedding_model=embedding_model, worst=worst
    )
    result = look_for_overlap(order)
    screen = open_screen(json)
    if isinstance(screen, JsonScreen):
        _print(result)
    else:
        _show(result, screen)
    copied = result.overlap.count("characters").rate or 0.0
    if (limit is not None and result.overlap.rate > limit) or (near_limit is not None and copied > near_limit):
        raise typer.Exit(FAILED)


def _show(result: "OverlapResult", screen: PersonScreen) -> None:
    overlap = result.overlap
    rows = [
        (one.kind, one.num, one.num_comparable, interval(one.rate, one.interval.low, one.interval.high))
        for one in overlap.counts
    ]
    title = f"{overlap.num_second:,} tasks of B looked for in {overlap.num_first:,} of A"
    screen.table(("kind", "found", "of", "rate"), rows, title=title)
    for pair in overlap.pairs:
        screen.say(f"{pair.kind} {pair.share:.2f}")
        _say_pair(pair.first, pair.second, screen)
    if result.neighbors is None:
        screen.say("nearest neighbors by meaning were not looked for: no --embedding-model was given")
    else:
        for first, second, cosine in result.neighbors:
            screen.say(f"cosine {cosine:.3f}")
            _say_pair(first, second, screen)
    screen.say(f"leaked: {overlap.num_leaked} of {overlap.num_second}, {overlap.rate:.4f}")


def _say_pair(first: "AskedText", second: "AskedText", screen: PersonScreen) -> None:
    screen.say(f"  A {first.id}: {_escaped(first.text)}")
    screen.say(f"  B {second.id}: {_escaped(second.text)}")


def _escaped(text: str) -> str:
    """On one line, with what could steer a terminal spelled out."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def _print(result: "OverlapResult") -> None:
    overlap = result.overlap
    for pair in overlap.pairs:
        texts = {"first": pair.first.text, "second": pair.second.text}
        ids = {"first_id": pair.first.id, "second_id": pair.second.id}
        print_json({"event": "pair", "kind": pair.kind, "share": pair.share, **ids, **texts})
    for first, second, cosine in result.neighbors or ():
        texts = {"first": first.text, "second": second.text}
        print_json({"event": "neighbor", "cosine": cosine, "first_id": first.id, "second_id": second.id, **texts})
    print_json(
        {
            "first": overlap.num_first,
            "second": overlap.num_second,
            "leaked": overlap.num_leaked,
            "rate": overlap.rate,
            "counts": [
                {
                    "kind": one.kind,
                    "found": one.num,
                    "of": one.num_comparable,
                    "rate": one.rate,
                    "low": one.interval.low,
                    "high": one.interval.high,
                }
                for one in overlap.counts
            ],
            "revision": overlap.rules.revision,
            "embedding": result.neighbors is not None,
        }
    )
