"""Letters to put in order: one turn, one right answer, and a checker that never sees the gold.

A task names a job and five letters. Its cluster is the set of letters, so that no set of a held-out task is trained on.
Demonstrations show the grammar of an answer, the right order in a share of the cases, and in some a turn that rambles,
whose answer begins no line and is none: what is worth it is left to the reward.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType

from rollwright.environments import DemonstratedTurn, EnvironmentSetupError, ToolEnvironment
from rollwright.recipes.ladder.worlds.clusters import CLUSTER, split_by_cluster
from rollwright.recipes.worlds import World
from rollwright.record import Message, Submission, Task, digest, seed_of
from rollwright.tasks import Payload, SplitSizes, Stratum, payload_of, stratum_of
from rollwright.verifiers import AnswerRule, FunctionVerifier, Grade, Part, exact_verifier, format_verifier

__all__ = ["ALPHABET", "JOBS", "letters_strata", "load", "second_verifier", "show_letters"]

ALPHABET = "abcdefghijkl"
_COUNT = 5
_REVISION = 1
_SAID = "hm"
_LONGEST_RAMBLE = 24

JOBS: Mapping[str, Callable[[Sequence[str]], list[str]]] = MappingProxyType(
    {
        "sort": sorted,
        "reverse": lambda letters: list(reversed(letters)),
        "turn": lambda letters: [*letters[1:], letters[0]],
    }
)
"""Name to what it makes of the letters."""


def load(*, jobs: str = "sort", right_share: float = 0.4, ramble_share: float = 0.15) -> World:
    """Letters to put in order, in one turn.

    Args:
        jobs: `sort`, `reverse`, `turn`, with commas between them; each is a source of its own.
        right_share: of the demonstrations that are right.
        ramble_share: of the demonstrations that ramble before they answer.
    """
    rule = AnswerRule()

    def demonstrate(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return show_letters(task, seed, right_share=right_share, ramble_share=ramble_share)

    return World(
        environment=ToolEnvironment(name="letters", tools=[], demonstrate=demonstrate),
        tasks=lambda sizes, seed: letters_strata(sizes, seed, jobs=jobs),
        parts=(
            Part(verifier=exact_verifier(rule)),
            Part(verifier=format_verifier(rule), weight=0.0, role="shaping"),
        ),
        reference=_right,
        attacks={"every letter": _every_letter, "the question": _the_question},
        spoken=(" ".join(ALPHABET), *(f"answer: {' '.join(ALPHABET[n : n + 3])}" for n in range(9))),
    )


def letters_strata(sizes: SplitSizes, seed: int, *, jobs: str) -> tuple[Stratum, ...]:
    """One source a job, of equal weight.

    Args:
        sizes: over all jobs.
        seed: of the drawing.
        jobs: names with commas between them.

    Raises:
        EnvironmentSetupError: for a job that there is not.
    """
    names = [name.strip() for name in jobs.split(",") if name.strip()]
    if unknown := [name for name in names if name not in JOBS] or ([] if names else [jobs]):
        raise EnvironmentSetupError(f"there is no job {unknown[0]!r}; there are {', '.join(JOBS)}")
    part = SplitSizes(train=max(1, sizes.train // len(names)), held_out=sizes.held_out // len(names))
    revision = f"letters:{digest([_REVISION, seed])[:16]}"
    return tuple(
        stratum_of(split_by_cluster(_payloads(name, seed), part, name=f"letters_{name}", revision=revision), 1.0)
        for name in names
    )


def show_letters(task: Task, seed: int, *, right_share: float, ramble_share: float) -> tuple[DemonstratedTurn, ...]:
    """One demonstration: right or in another order, at once or after some rambling."""
    payload = payload_of(task)
    chance = Random(seed_of(seed, "letters", task.task_id))
    letters = payload.answer.split()
    if chance.random() >= right_share:
        gold = list(letters)
        while letters == gold:
            chance.shuffle(letters)
    said = [_SAID] * chance.randint(4, _LONGEST_RAMBLE) if chance.random() < ramble_share else []
    return (DemonstratedTurn(text=" ".join([*said, "answer:", *letters])),)


def second_verifier() -> FunctionVerifier:
    """Whether the last turn ends in a line with the letters of the question, put in order; reads no gold answer."""
    return FunctionVerifier(name="letters_in_order", revision=digest([_REVISION])[:16], grade=_checked)


def _checked(submission: Submission) -> Grade:
    asked = payload_of(submission.task).messages[-1].text
    job, _, rest = asked.partition(":")
    spoken = [passage.text for passage in submission.passages if passage.kind == "policy"]
    found = re.search(r"(?:^|\n)answer:((?: [a-z])+)\s*$", spoken[-1]) if spoken else None
    if found is None:
        return Grade(value=0.0, finding="no_answer")
    given, letters = found.group(1).split(), rest.split()
    match job:
        case "sort":
            is_right = all(a < b for a, b in zip(given, given[1:], strict=False)) and set(given) == set(letters)
        case "reverse":
            is_right = given[::-1] == letters
        case _:
            is_right = given[-1:] + given[:-1] == letters
    return Grade(value=float(is_right), evidence=" ".join(given)[:200])


def _payloads(job: str, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "letters", job))
    while True:
        letters = chance.sample(ALPHABET, _COUNT)
        yield Payload(
            messages=(Message(role="user", text=f"{job}: {' '.join(letters)}"),),
            answer=" ".join(JOBS[job](letters)),
            info={CLUSTER: "".join(sorted(letters)), "slice": job},
        )


def _right(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"answer: {payload_of(task).answer}"),)


def _every_letter(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"answer: {' '.join(ALPHABET)}"),)


def _the_question(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    letters = payload_of(task).messages[-1].text.partition(":")[2]
    return (DemonstratedTurn(text=f"answer: {' '.join([letters.split()[-1], *letters.split()[:-1]])}"),)
