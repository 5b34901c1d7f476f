"""What a step's prompts have in common: with each other, and with the held-out tasks, where nothing should be.

A leak is an equal prompt, or a run of words that both hold; short prompts that only resemble one another are none.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.record import Group, Task
from rollwright.tasks import TaskError, payload_of
from rollwright.tasks.contamination import AskedText, OverlapRules, find_overlap

__all__ = ["PromptWatch", "prompt_clusters"]

_RULES: Final = OverlapRules()


class PromptWatch:
    """Knows the held-out tasks; what it says of a step follows from the step alone."""

    def __init__(self, held_out: Sequence[Task]) -> None:
        """Nothing is read before the first step."""
        self._tasks = held_out

    def see(self, groups: Sequence[Group]) -> Iterator[Diagnostic]:
        """Count the clusters of a batch's prompts, and the prompts of it that stand in the held-out set.

        Args:
            groups: of the batch.
        """
        tasks = {group.task.task_id: group.task for group in groups}
        asked = [_asked(task) for _, task in sorted(tasks.items())]
        clusters = prompt_clusters([one.text for one in asked])
        yield Diagnostic(name="data/unique_prompt_clusters", value=float(clusters), unit="count", num_items=len(asked))
        if not self._tasks:
            return
        equal = [one for one in asked if one.text in self._texts]
        others = [one for one in asked if one.text not in self._texts and _is_long(one)]
        counts = {"exact": len(equal), "words": self._num_sharing(others)}
        for kind, count in counts.items():
            yield Diagnostic(
                name="data/contamination",
                value=float(count),
                unit="count",
                num_items=len(asked),
                labels={"kind": kind},
            )

    def _num_sharing(self, asked: Sequence[AskedText]) -> int:
        """Prompts that share a run of words with a held-out one."""
        if not asked or not self._long:
            return 0
        return find_overlap(self._long, asked, _RULES).count("words").num

    @cached_property
    def _held_out(self) -> tuple[AskedText, ...]:
        return tuple(_asked(task) for task in self._tasks)

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(one.text for one in self._held_out)

    @cached_property
    def _long(self) -> tuple[AskedText, ...]:
        return tuple(one for one in self._held_out if _is_long(one))


def prompt_clusters(texts: Iterable[str]) -> int:
    """Clusters of like texts: a text joins the first whose opener shares enough of its runs of characters.

    Args:
        texts: in an order that decides who opens a cluster.

    Returns:
        Between 0, for no text, and their number.
    """
    length, near = _RULES.characters, _RULES.near
    openers: list[set[str]] = []
    for text in texts:
        folded = " ".join(text.casefold().split())
        runs = {folded[place : place + length] for place in range(max(1, len(folded) - length + 1))}
        if not any(_is_near(runs, other, near) for other in openers):
            openers.append(runs)
    return len(openers)


def _is_near(runs: set[str], other: set[str], near: float) -> bool:
    """Whether they share that much of what either has; sizes that rule it out are not looked into."""
    fewer, more = sorted((len(runs), len(other)))
    if fewer < near * more:
        return False
    shared = len(runs & other)
    return shared >= near * (len(runs) + len(other) - shared)


def _is_long(one: AskedText) -> bool:
    return len(one.text.split()) >= _RULES.words


def _asked(task: Task) -> AskedText:
    """What a task asks; the whole payload where it holds no conversation."""
    try:
        text = "\n".join(message.text for message in payload_of(task).messages)
    except (TaskError, ValueError):
        text = task.payload
    return AskedText(id=task.task_id, text=text)
