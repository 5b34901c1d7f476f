"""Small jobs for a shell: files to begin with, what is to be done, and the files that must be there at the end.

The end is worked out here, without a shell. A file that the job does not name must be as it was.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import cast

from rollwright.record import Message, Task, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.payload import Json, Payload, payload_of
from rollwright.tasks.source import SplitSizes, fill_splits

__all__ = ["ShellJob", "shell_job_of", "shell_job_strata"]

SOURCE = "shell_jobs"
_BUILDER = 1
"""Of the families below; part of the revision."""
_WORDS = ("amber", "basil", "cedar", "daisy", "ebony", "fern", "grove", "hazel", "iris", "jade", "kelp", "lilac")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellJob:
    """A job."""

    files: Mapping[str, str]
    """Path to text, at the beginning."""
    end: Mapping[str, str]
    """All files at the end; for verifiers alone."""
    command: str
    """One way to do it."""


def shell_job_strata(sizes: SplitSizes, *, seed: int) -> tuple[Stratum, ...]:
    """One stratum for each kind of job, of equal weight.

    Args:
        sizes: distinct tasks wanted over all kinds.
        seed: of names and contents.
    """
    revision = f"shell_jobs:{digest([_BUILDER, seed])[:16]}"
    count = len(_JOBS)
    part = SplitSizes(train=max(1, round(sizes.train / count)), held_out=round(sizes.held_out / count))
    strata: list[Stratum] = []
    for name in _JOBS:
        source = fill_splits(_payloads(name, seed), part, name=SOURCE, revision=revision)
        strata.append(Stratum(name=name, weight=1 / count, train=source.train, held_out=source.held_out))
    return tuple(strata)


def shell_job_of(task: Task) -> ShellJob:
    """What a task is about.

    Raises:
        TaskError: for a task that holds no job.
    """
    info = payload_of(task).info
    files, end, command = info.get("files"), info.get("end"), info.get("command")
    if not isinstance(files, Mapping) or not isinstance(end, Mapping) or not isinstance(command, str):
        raise TaskError(f"task {task.task_id} holds no shell job: it needs `files`, `end` and `command`")
    return ShellJob(files=cast("Mapping[str, str]", files), end=cast("Mapping[str, str]", end), command=command)


def _payloads(name: str, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, SOURCE, name))
    while True:
        question, job = _JOBS[name](chance)
        info: dict[str, Json] = {"slice": name, "files": job.files, "end": job.end, "command": job.command}
        yield Payload(messages=(Message(role="user", text=question),), answer=digest(dict(job.end)), info=info)


def _lines(chance: Random) -> list[str]:
    return [f"{chance.choice(_WORDS)} {chance.randint(1, 99)}" for _ in range(chance.randint(8, 20))]


def _count(chance: Random) -> tuple[str, ShellJob]:
    lines, word, name = _lines(chance), chance.choice(_WORDS), f"{chance.choice(_WORDS)}.log"
    files = {name: "".join(f"{line}\n" for line in lines)}
    found = sum(line.split()[0] == word for line in lines)
    question = f"How many lines of {name} begin with the word {word}? Write the number alone into count.txt."
    return question, ShellJob(
        files=files, end={**files, "count.txt": f"{found}\n"}, command=f"grep -c '^{word} ' {name} > count.txt"
    )


def _sort(chance: Random) -> tuple[str, ShellJob]:
    lines, name = _lines(chance), f"{chance.choice(_WORDS)}-{chance.randint(1, 99)}.txt"
    words = [line.split()[0] for line in lines]
    files = {name: "".join(f"{word}\n" for word in words)}
    question = f"Write the words of {name} into sorted.txt, each once, in alphabetical order, one a line."
    return question, ShellJob(
        files=files,
        end={**files, "sorted.txt": "".join(f"{word}\n" for word in sorted(set(words)))},
        command=f"LC_ALL=C sort -u {name} > sorted.txt",
    )


def _rename(chance: Random) -> tuple[str, ShellJob]:
    folder = chance.choice(_WORDS)
    names = chance.sample(_WORDS, chance.randint(3, 6))
    files = {f"{folder}/{name}.{chance.choice(('txt', 'txt', 'log'))}": f"{chance.random()}\n" for name in names}
    files[f"{folder}/readme.txt"] = "about\n"
    end = {(path.removesuffix(".txt") + ".md" if path.endswith(".txt") else path): t for path, t in files.items()}
    question = f"Rename every file in the folder {folder} that ends in .txt so that it ends in .md instead."
    return question, ShellJob(
        files=files, end=end, command=f'for f in {folder}/*.txt; do mv "$f" "${{f%.txt}}.md"; done'
    )


def _collect(chance: Random) -> tuple[str, ShellJob]:
    folders = chance.sample(_WORDS, 3)
    files = {f"{folder}/{chance.choice(_WORDS)}.csv": f"{chance.randint(100, 999)}\n" for folder in folders}
    total = sum(int(text) for text in files.values())
    question = (
        f"Each of the folders {', '.join(folders)} has a .csv file with one number. Write their sum into total.txt and "
        "delete the .csv files."
    )
    command = "cat */*.csv | awk '{s += $1} END {print s}' > total.txt && rm */*.csv"
    return question, ShellJob(files=files, end={"total.txt": f"{total}\n"}, command=command)


_JOBS: MappingProxyType[str, Callable[[Random], tuple[str, ShellJob]]] = MappingProxyType(
    {"count": _count, "sort": _sort, "rename": _rename, "collect": _collect}
)
