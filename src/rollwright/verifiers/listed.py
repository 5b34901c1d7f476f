"""The answer is a collection of the gold items: order and repetitions as declared."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rollwright.record import Submission, digest
from rollwright.tasks import Payload, read_json
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, gold_payload, no_answer
from rollwright.verifiers.numbers import NumberForm, read_number

__all__ = ["SetRule", "set_verifier"]

_MAX_CHARACTERS = 20_000
_MAX_ITEMS = 1000
_MAX_DEPTH = 20
_OPENING, _CLOSING = "([{", ")]}"
_REVISION = 1

Item = Fraction | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRule:
    """What counts as the same collection."""

    order: Literal["ignored", "kept"] = "ignored"
    duplicates: Literal["ignored", "counted"] = "ignored"
    """`counted`: 1, 1, 2 is not 1, 2."""


def set_verifier(rule: AnswerRule, sets: SetRule | None = None, *, name: str = "set") -> FunctionVerifier:
    """1 where the answer holds exactly the gold items, else 0: one missing or one too many is wrong.

    Items stand between commas or semicolons, with or without brackets around them, or in a JSON list; numbers compare
    as numbers, exactly, everything else as text, blanks and letter case aside. A task may give its items as
    `info.items` instead of in its answer.

    Args:
        rule: where the answer stands.
        sets: what counts as the same; part of the revision.
        name: in the tables.
    """
    settings = sets or SetRule()

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        gold = _gold_items(payload)
        if not gold:
            raise GoldError(f"{payload.answer[:80]!r} holds no items")
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        given = _items(reading.answer)
        evidence = f"{reading.answer[:200]!r} against {payload.answer[:200]!r}"
        if not given:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
        return Grade(value=float(_same(gold, given, settings)), evidence=evidence)

    revision = digest([_REVISION, name, rule.parts(), settings.order, settings.duplicates])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)


def _same(gold: Sequence[Item], given: Sequence[Item], rule: SetRule) -> bool:
    if rule.duplicates == "ignored":
        gold, given = list(dict.fromkeys(gold)), list(dict.fromkeys(given))
    return list(gold) == list(given) if rule.order == "kept" else Counter(gold) == Counter(given)


def _gold_items(payload: Payload) -> list[Item] | None:
    listed = payload.info.get("items")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        return [_item(item if isinstance(item, str) else json.dumps(item)) for item in listed]
    return _items(payload.answer)


def _items(text: str) -> list[Item] | None:
    """The items of a collection, None where it has none or an empty one among them."""
    if len(text) > _MAX_CHARACTERS:
        return None
    stripped = text.strip().removesuffix(".").strip("$ \t\n").replace("\\{", "{").replace("\\}", "}")
    if (listed := _json_items(stripped)) is not None:
        return listed
    parts = _split(stripped)
    if parts is not None and len(parts) == 1 and stripped[:1] in _OPENING and stripped[-1:] in _CLOSING:
        parts = _split(stripped[1:-1])
    if parts is None or len(parts) > _MAX_ITEMS or not all(parts):
        return None
    return [_item(part) for part in parts]


def _json_items(text: str) -> list[Item] | None:
    """The items of a flat JSON list."""
    if not text.startswith("["):
        return None
    try:
        loaded = read_json(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, list) or not 0 < len(loaded) <= _MAX_ITEMS:
        return None
    items = [item for item in loaded if isinstance(item, str | int | float) and not isinstance(item, bool)]
    return [_item(str(item)) for item in items] if len(items) == len(loaded) else None


def _split(text: str) -> list[str] | None:
    """At commas and semicolons outside all brackets; None where the brackets are not balanced."""
    parts, depth, start = list[str](), 0, 0
    for place, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character in ",;" and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
        if not 0 <= depth <= _MAX_DEPTH:
            return None
    return [*parts, text[start:].strip()] if depth == 0 else None


def _item(text: str) -> Item:
    number = read_number(text, NumberForm.CLOSED)
    if number is not None:
        return number.value
    return " ".join(text.strip().strip("\"'").split()).casefold()
