"""Finds in a run what a person names, and says what there is where the name is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import duckdb

from rollwright.evidence.errors import EvidenceError
from rollwright.evidence.manifest import Manifest, Retention
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.token_text import TokenText
from rollwright.evidence.views import connect

__all__ = ["Asked", "Row", "TokenPlace", "text_of"]

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlace:
    """One token: `TRAJECTORY/SEGMENT/INDEX`."""

    trajectory_id: str
    segment: int
    index: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a place.

        Raises:
            EvidenceError: for text that is none.
        """
        parts = text.rsplit("/", 2)
        if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
            raise EvidenceError(
                f"{text!r} names no token; give TRAJECTORY/SEGMENT/INDEX, such as t000123-04-0/3/7, counted from 0."
            )
        return cls(trajectory_id=parts[0], segment=int(parts[1]), index=int(parts[2]))

    def __str__(self) -> str:
        """As a person gives it."""
        return f"{self.trajectory_id}/{self.segment}/{self.index}"


class Asked:
    """A run that is being asked."""

    def __init__(self, path: Path) -> None:
        """Open its views; sizes of files are compared, not their contents, which `check` does."""
        self.folder = RunFolder.open(path)
        self._connection: duckdb.DuckDBPyConnection = connect(path, verification="sizes")
        self._answers: dict[str, list[Row]] = {}
        """What was asked before: many tokens share a segment, an episode and a group."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def manifest(self) -> Manifest:
        """Of the newest segment."""
        return self.folder.manifest

    @property
    def retention(self) -> Retention:
        """What receipts keep."""
        return self.manifest.receipts

    @cached_property
    def tokens(self) -> TokenText | None:
        """The run's tokenizer."""
        return TokenText.of(self.folder.tokenizer)

    @cached_property
    def configuration(self) -> Mapping[str, str]:
        """Key to value, as JSON text."""
        return {value.key: value.value for value in self.manifest.configuration}

    def rows(self, sql: str) -> list[Row]:
        """The answer, a map a row."""
        if sql not in self._answers:
            answer = self._connection.execute(sql)
            names = [str(column[0]) for column in answer.description or ()]
            self._answers[sql] = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        return self._answers[sql]

    def one(self, sql: str) -> Row | None:
        """The first row, or none."""
        rows = self.rows(sql)
        return rows[0] if rows else None

    def decode(self, token_ids: Sequence[int]) -> str:
        """Tokens as text; numbers where the run has no tokenizer."""
        return " ".join(map(str, token_ids)) if self.tokens is None else self.tokens.decode(token_ids)

    def step(self, step: int) -> int:
        """A step that the run has.

        Raises:
            EvidenceError: naming those that there are.
        """
        steps = sorted({commit.step for commit in self.folder.commits})
        if step not in steps:
            there = f"steps {steps[0]} to {steps[-1]}" if steps else "none yet"
            raise EvidenceError(f"{self.folder.path} has no step {step}; it has {there}.")
        return step

    def trajectory(self, name: str) -> Row:
        """An episode by its id.

        Raises:
            EvidenceError: naming what comes near.
        """
        found = self.one(f"SELECT * FROM trajectories WHERE trajectory_id = {text_of(name)}")
        if found is None:
            known = [
                str(row["trajectory_id"]) for row in self.rows("SELECT trajectory_id FROM trajectories ORDER BY 1")
            ]
            raise EvidenceError(f"{self.folder.path} has no episode {name!r}; {_near(name, known)}.")
        return found

    def segment(self, place: TokenPlace) -> Row:
        """The segment that holds a token.

        Raises:
            EvidenceError: naming the segments, or how many tokens there are.
        """
        rows = self.rows(
            f"SELECT * FROM segments WHERE trajectory_id = {text_of(place.trajectory_id)} ORDER BY segment"
        )
        found = next((row for row in rows if row["segment"] == place.segment), None)
        if found is None:
            there = ", ".join(f"{row['segment']} ({row['origin']}, {row['num_tokens']} tokens)" for row in rows)
            raise EvidenceError(f"{place.trajectory_id} has no segment {place.segment}; it has {there or 'none'}.")
        count = cast("int", found["num_tokens"])
        if place.index >= count:
            raise EvidenceError(
                f"segment {place.segment} of {place.trajectory_id} has {count} tokens, 0 to {count - 1}; "
                f"there is no token {place.index}."
            )
        return found

    def task(self, task_id: str) -> Row:
        """A task by its id.

        Raises:
            EvidenceError: naming what comes near.
        """
        found = self.one(f"SELECT * FROM tasks WHERE task_id = {text_of(task_id)}")
        if found is None:
            known = [str(row["task_id"]) for row in self.rows("SELECT task_id FROM tasks ORDER BY 1")]
            raise EvidenceError(f"{self.folder.path} has no task {task_id!r}; {_near(task_id, known)}.")
        return found


def text_of(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def _near(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"near it are {', '.join(near)}"
    return f"it has {len(known)}, such as {', '.join(known[:3])}" if known else "it has none"
