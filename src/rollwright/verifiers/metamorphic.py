"""Tasks told anew under other names, in another order, in other words; what solves one solves the other (M122).

An answer that solves its task is carried over and solves the variant. One that lists the examples, or was learned by
heart, does not: it is paid on the original alone, and the difference is the hack gap.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeGuard

from rollwright.record import Message, Task, seed_of
from rollwright.tasks import Json, Payload, make_task, payload_of

__all__ = ["TRANSFORMS", "Kind", "Transform", "Variant"]

Kind = Literal["renaming", "permutation", "reparameterization"]
_LETTERS = "ABCDEFGHIJ"
_FRESH = 10_000
_PROPERTIES = (("red", "blue", "green"), ("short", "long"), ("loaded", "empty"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A task told anew, and what an answer to the original says in it."""

    task: Task
    carry: Callable[[str], str]
    """From an answer to the original to the same answer to the variant. What names an example by its old name keeps
    the name: that is what a renaming tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """One way of telling a task anew."""

    name: str
    kind: Kind
    apply: Callable[[Task, int], Variant | None]
    """(task, seed) to a variant, equal for equal arguments; None where the task has nothing to change."""


def _rename(task: Task, seed: int) -> Variant | None:
    """Other names for the entities of `info.entities`, or for trains; an answer may name none of them."""
    payload = payload_of(task)
    names = _entities(payload)
    if not names or any(_has_word(payload.answer, name) for name in names):
        return None
    chance = Random(seed_of(seed, "rename", task.task_id))
    fresh = [f"n{number}" for number in chance.sample(range(_FRESH, 10 * _FRESH), len(names))]
    return Variant(task=_told(task, payload, dict(zip(names, fresh, strict=True))), carry=_as_it_is)


def _permute_choices(task: Task, seed: int) -> Variant | None:
    """The options of `info.options` in another order; letters move along, in the answer too."""
    payload = payload_of(task)
    options, letter = payload.info.get("options"), payload.answer.strip()
    if not _is_list(options) or len(letter) != 1 or letter not in _LETTERS[: len(options)]:
        return None
    order = list(range(len(options)))
    Random(seed_of(seed, "choices", task.task_id)).shuffle(order)
    moved = {_LETTERS[old]: _LETTERS[new] for new, old in enumerate(order)}
    shown = "\n".join(f"{_LETTERS[place]}. {options[old]}" for place, old in enumerate(order))
    changed = replace(
        payload,
        messages=(*payload.messages[:-1], Message(role="user", text=f"{_without_options(payload)}\n{shown}")),
        answer=moved[letter],
        info={**payload.info, "options": [options[old] for old in order]},
    )
    return Variant(task=_made(task, changed), carry=_words_replaced(moved))


def _permute_items(task: Task, seed: int) -> Variant | None:
    """The items of `info.items`, or the examples of `info.trains`, in another order."""
    payload = payload_of(task)
    for name in ("items", "trains"):
        items = payload.info.get(name)
        if _is_list(items) and len(items) > 1:
            shuffled = list(items)
            Random(seed_of(seed, name, task.task_id)).shuffle(shuffled)
            return Variant(task=_made(task, replace(payload, info={**payload.info, name: shuffled})), carry=_as_it_is)
    return None


def _recode(task: Task, seed: int) -> Variant | None:
    """Other words for the properties of trains, one for one within each kind; an answer's words change along."""
    payload = payload_of(task)
    if "trains" not in payload.info:
        return None
    chance = Random(seed_of(seed, "recode", task.task_id))
    words: dict[str, str] = {}
    for values in _PROPERTIES:
        turn = chance.randrange(1, len(values))
        words |= dict(zip(values, (*values[turn:], *values[:turn]), strict=True))
    return Variant(task=_told(task, payload, words), carry=_words_replaced(words))


TRANSFORMS: tuple[Transform, ...] = (
    Transform(name="renamed entities", kind="renaming", apply=_rename),
    Transform(name="options in another order", kind="permutation", apply=_permute_choices),
    Transform(name="items in another order", kind="permutation", apply=_permute_items),
    Transform(name="other words for properties", kind="reparameterization", apply=_recode),
)


def _entities(payload: Payload) -> list[str]:
    named = payload.info.get("entities")
    if _is_list(named):
        return [name for name in named if isinstance(name, str) and name]
    trains = payload.info.get("trains")
    if not _is_list(trains):
        return []
    names = [train.get("name") for train in trains if isinstance(train, Mapping)]
    return [name for name in names if isinstance(name, str)]


def _told(task: Task, payload: Payload, words: Mapping[str, str]) -> Task:
    """The task with words replaced everywhere: in what is asked, in the answer and in what verifiers read."""
    swap = _words_replaced(words)
    return _made(
        task,
        Payload(
            messages=tuple(Message(role=m.role, text=swap(m.text)) for m in payload.messages),
            answer=swap(payload.answer),
            info={name: _swapped(value, swap) for name, value in payload.info.items()},
        ),
    )


def _made(task: Task, payload: Payload) -> Task:
    return make_task(payload, source=task.source, revision=f"{task.revision}+told", split=task.split)


def _swapped(value: Json, swap: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return swap(value)
    if isinstance(value, Mapping):
        return {name: _swapped(inner, swap) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_swapped(inner, swap) for inner in value]
    return value


def _words_replaced(words: Mapping[str, str]) -> Callable[[str], str]:
    """Replace whole words, all at once, so that a word may take another's place."""
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(w)}(?!\w)" for w in sorted(words, key=len, reverse=True)))
    return lambda text: pattern.sub(lambda match: words[match[0]], text)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _without_options(payload: Payload) -> str:
    lines = payload.messages[-1].text.split("\n")
    return "\n".join(line for line in lines if not re.match(r"\s*\(?[A-J][).:]\s", line))


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _as_it_is(text: str) -> str:
    return text
