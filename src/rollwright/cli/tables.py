"""Tables that a person can read: cut to the terminal, or as wide as they need when piped."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["CELL_CHARACTERS", "SHOWN_ROWS", "cell", "print_table"]

CELL_CHARACTERS = 60
"""Longest text of a cell; `--json` gives all of it."""
SHOWN_ROWS = 200
"""Of the answer to a question that anyone may ask; tables of our own are whole."""


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """Print rows.

    Args:
        console: where to; a terminal folds cells into its width, a pipe gets whole lines.
        columns: their names.
        rows: a value for each column.
        title: above the table.
    """
    shown = [[cell(value) for value in row] for row in rows]
    are_numbers = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(columns))]
    if title and not console.is_terminal:
        console.print(Text(title), soft_wrap=True)
    if not console.is_terminal:
        for line in _lines(columns, shown, are_numbers):
            console.print(Text(line), soft_wrap=True)
        return
    table = Table(title=title or None, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(
            Text(column), justify="right" if are_numbers[place] else "left", no_wrap=not place, overflow="fold"
        )
    for row in shown:
        table.add_row(*map(Text, row))
    console.print(table)


def cell(value: object) -> str:
    """A value as a person reads it: six digits of a fraction, one line, cut where it is long."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= CELL_CHARACTERS else f"{text[: CELL_CHARACTERS - 1]}…"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]], are_numbers: Sequence[bool]) -> Iterator[str]:
    """Columns side by side, each as wide as its longest cell."""
    widths = [max(map(len, texts)) for texts in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(row, widths, are_numbers, strict=True)
        )
        yield "  ".join(cells).rstrip()
