"""Rubrics written offline from several attempts at each task, kept as a versioned book, used online as they are (GRS).

attempts at a task ──► the judge proposes criteria ──► book (JSON, version = digest) ──► RubricJudge, every replay alike
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.record import Message, Submission, canonical_json, digest
from rollwright.tasks import Json, read_json
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.judging.asking import Answered, Asker, Unanswered
from rollwright.verifiers.judging.marks import own_marks
from rollwright.verifiers.judging.prompting import Shown, block, judge_messages, question_of, shown_text
from rollwright.verifiers.judging.rubric import Rubric, RubricItem, rubric_from_json

__all__ = ["RubricBook", "Synthesis", "is_book", "read_book", "synthesize_rubrics"]

_BOOK = "rubrics_by_task"
_INSTRUCTIONS = {
    "solution": (
        "You write criteria by which solutions of a task that all pass its tests can still be told apart: correctness "
        "beyond the tests, clarity, economy. Each criterion can be checked by reading one solution alone."
    ),
    "behavior": (
        "You write criteria by which the conduct of an agent can be judged: whether it did what was asked and nothing "
        "else, used its tools well, and did not cheat. Each criterion can be checked by reading one episode alone."
    ),
}
_PROTOCOL = (
    "Write from {fewest} to {most} criteria, one a line and numbered from 1, and nothing behind them:\n"
    "ITEM <number>: <criterion in one sentence>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricBook:
    """A rubric for each task."""

    rubrics: Mapping[str, Rubric]
    """By task id."""
    origin: str
    """Revision of the judge that wrote them, and of what: part of the version."""

    @property
    def version(self) -> str:
        """Equal for equal books: what was graded by one version can be graded again by it."""
        return digest([self.origin, {name: rubric.revision for name, rubric in self.rubrics.items()}])[:16]

    def rubric_of(self, submission: Submission) -> Rubric:
        """The task's rubric.

        Raises:
            GoldError: where the book has none.
        """
        found = self.rubrics.get(submission.task.task_id)
        if found is None:
            raise GoldError(f"rubric book {self.version} has nothing on task {submission.task.task_id}")
        return found

    def to_json(self) -> str:
        """To be kept."""
        rubrics: dict[str, Json] = {name: read_json(rubric.canonical()) for name, rubric in self.rubrics.items()}
        return canonical_json({_BOOK: rubrics, "origin": self.origin, "version": self.version})


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """What writing a book came to."""

    book: RubricBook
    without: tuple[str, ...]
    """Tasks for which no readable rubric was written: their attempts go ungraded rather than graded by chance."""
    calls: int
    cost: float | None


async def synthesize_rubrics(
    asker: Asker,
    attempts: Mapping[str, Sequence[Submission]],
    *,
    of: str = "solution",
    shown: Shown | None = None,
    num_items: tuple[int, int] = (2, 6),
) -> Synthesis:
    """Write a rubric for each task from several attempts at it; offline, before training.

    Args:
        asker: who writes them.
        attempts: by task id, each with at least two attempts.
        of: `solution` or `behavior`.
        shown: which part of each attempt the writer sees; the last answer, for behavior the whole episode.
        num_items: fewest and most criteria of a rubric.

    Raises:
        VerifierSetupError: for another kind of rubric, or a task with fewer than two attempts.
    """
    if of not in _INSTRUCTIONS:
        raise VerifierSetupError(f"rubrics are of {' or '.join(_INSTRUCTIONS)}, not of {of!r}")
    if lone := [task_id for task_id, found in attempts.items() if len(found) < 2]:
        raise VerifierSetupError(f"criteria that tell attempts apart need two of them; task {lone[0]} has fewer")
    part = shown or Shown(part="episode" if of == "behavior" else "answer")

    async def write(found: Sequence[Submission]) -> Answered[tuple[str, ...]] | Unanswered:
        return await asker.ask(_question(found, of, part, num_items), lambda reply: _criteria(reply, num_items))

    async with asyncio.TaskGroup() as group:
        running = {
            task_id: group.create_task(write(found), name=f"rubric of {task_id}") for task_id, found in attempts.items()
        }
    answers = {task_id: task.result() for task_id, task in running.items()}
    written = {
        task_id: Rubric(items=tuple(RubricItem(name=f"item_{n}", text=t) for n, t in enumerate(a.found, start=1)))
        for task_id, a in answers.items()
        if not isinstance(a, Unanswered)
    }
    known = [a.cost for a in answers.values() if a.cost is not None]
    return Synthesis(
        book=RubricBook(rubrics=written, origin=f"{asker.revision} {of}"),
        without=tuple(task_id for task_id in attempts if task_id not in written),
        calls=sum(a.calls for a in answers.values()),
        cost=sum(known) if known else None,
    )


def is_book(given: Json) -> bool:
    """Whether parsed JSON is a book rather than one rubric."""
    return isinstance(given, Mapping) and _BOOK in given


def read_book(text: str) -> RubricBook:
    """A book that `to_json` wrote.

    Raises:
        VerifierSetupError: for anything else, and for a book that was edited without its version.
    """
    given = read_json(text)
    rubrics = given.get(_BOOK) if isinstance(given, Mapping) else None
    origin = given.get("origin") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(rubrics, Mapping) or not isinstance(origin, str):
        raise VerifierSetupError(f"a rubric book has {_BOOK!r} and 'origin'")
    book = RubricBook(rubrics={name: rubric_from_json(value) for name, value in rubrics.items()}, origin=origin)
    if given.get("version") != book.version:
        raise VerifierSetupError(
            f"the rubric book says version {given.get('version')} and holds {book.version}: it was edited. Give it "
            "that version on purpose, since its verdicts are others"
        )
    return book


def _question(
    submissions: Sequence[Submission], of: str, shown: Shown, num_items: tuple[int, int]
) -> tuple[Message, ...]:
    share = shown.max_characters // len(submissions)
    attempts = [
        block(f"ATTEMPT {place}", shown_text(submission, shown), max_characters=share)
        for place, submission in enumerate(submissions, start=1)
    ]
    asked = block("TASK", question_of(submissions[0]), max_characters=shown.max_characters)
    protocol = _PROTOCOL.format(fewest=num_items[0], most=num_items[1])
    return judge_messages(_INSTRUCTIONS[of], [asked, *attempts], protocol)


def _criteria(reply: str, num_items: tuple[int, int]) -> tuple[str, ...] | None:
    marks = own_marks(reply, "ITEM")
    texts = tuple(mark.value.strip() for mark in marks)
    is_numbered = [mark.label for mark in marks] == [str(n) for n in range(1, len(marks) + 1)]
    return texts if num_items[0] <= len(texts) <= num_items[1] and is_numbered and all(texts) else None
