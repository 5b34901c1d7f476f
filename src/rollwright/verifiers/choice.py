"""The answer is the gold option: its letter, its text, or both of the same option. Several letters are none."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from rollwright.record import Submission, digest
from rollwright.tasks import Payload
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, answered, gold_payload, no_answer

__all__ = ["choice_verifier", "options_of"]

_LETTERS = "ABCDEFGHIJ"
_MAX_CHARACTERS = 2000
_LISTED = re.compile(r"^[ \t]*\(?([A-J])[).:][ \t]+(\S.*)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!\w)\(([A-J])\)\s*(.*?)(?=\s*(?:\([A-J]\)|$))", re.MULTILINE)
_LED = re.compile(r"(?:option|choice)?\s*[(\[]?([A-Ja-j])[)\]]?(?:\s*[.:)]\s*|\s+-\s+|\s*$)(.*)", re.DOTALL)
_REVISION = 2


def choice_verifier(rule: AnswerRule, *, name: str = "choice") -> FunctionVerifier:
    """1 where the answer names the gold option and no other, else 0.

    The options are those of `info.options` (a list, or a map from letter to text), else those that the question lists;
    without any, letters alone are compared. The gold answer is a letter or an option's text. Where the options are
    letters themselves, an answer of one letter is a letter, and a gold answer that is the letter of one option and the
    text of another is none.

    Args:
        rule: where the answer stands.
        name: in the tables.
    """

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        options = options_of(payload)
        gold = _gold_letter(payload.answer, options)
        if gold is None:
            raise GoldError(
                f"{payload.answer[:80]!r} names none of the options {', '.join(options) or _LETTERS}, or two of them; "
                "a letter with its text, such as 'B) a dog', is never read as another option"
            )
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        evidence = f"{reading.answer[:200]!r} against {gold}"
        given = _named(reading.answer, options)
        if given is None:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
        return Grade(value=float(given == gold), evidence=evidence, canonical=answered(given))

    return FunctionVerifier(name=name, revision=digest([_REVISION, name, rule.parts()])[:16], grade=grade)


def options_of(payload: Payload) -> Mapping[str, str]:
    """Letter to text of each option; empty where the task lists none."""
    given = payload.info.get("options")
    if isinstance(given, Mapping):
        return {letter.upper(): text for letter, text in given.items() if isinstance(text, str)}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return {letter: str(text) for letter, text in zip(_LETTERS, given, strict=False)}
    question = payload.messages[-1].text
    found = _LISTED.findall(question) or _INLINE.findall(question)
    letters = [letter for letter, _ in found]
    return dict(found) if len(found) > 1 and letters == list(_LETTERS[: len(found)]) else {}


def _named(text: str, options: Mapping[str, str]) -> str | None:
    """The letter of the one option that a text names."""
    bare = _bare(text)
    if not bare or len(text) > _MAX_CHARACTERS:
        return None
    if (letter := _led(bare, options)) is not None:
        return letter
    by_text = _by_text(bare, options)
    return by_text[0] if len(by_text) == 1 else None


def _gold_letter(text: str, options: Mapping[str, str]) -> str | None:
    """The same of a gold answer, which must not be the text of another option as well."""
    letter = _named(text, options)
    return None if any(other != letter for other in _by_text(_bare(text), options)) else letter


def _by_text(bare: str, options: Mapping[str, str]) -> Sequence[str]:
    return [letter for letter, option in options.items() if _bare(option) == bare]


def _led(bare: str, options: Mapping[str, str]) -> str | None:
    """The letter that a text begins with, where nothing but the text of that option follows."""
    match = _LED.fullmatch(bare)
    if match is None:
        return None
    letter, rest = match[1].upper(), _bare(match[2])
    if letter not in (options or _LETTERS) or (rest and rest != _bare(options.get(letter, ""))):
        return None
    return letter


def _bare(text: str) -> str:
    """Without emphasis, dollars, LaTeX text groups and a full stop; letters of other scripts stay what they are."""
    stripped = re.sub(r"\\(?:text|mathrm|textbf)\s*\{([^{}]*)\}", r"\1", text[: _MAX_CHARACTERS + 1])
    stripped = " ".join(unicodedata.normalize("NFC", stripped).replace("*", "").replace("$", "").split())
    return stripped.strip().removesuffix(".").strip().casefold()
