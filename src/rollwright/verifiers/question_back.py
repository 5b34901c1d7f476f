"""The question given back as an answer: right by value, and worth nothing."""

import re

from rollwright.tasks import Payload

__all__ = ["is_question_back"]

_OPERATOR = re.compile(
    r"(?<=[\w)}\]!])(?<!\d[eE])\s*(?:[-+*/^!:]|\\cdot|\\times|\\div|\\[pb]?mod)|\\[dt]?frac|\\sqrt|\\binom|!"
)
_SPELLINGS = (
    (re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])|[\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|\N{DIVISION SIGN}"), "/"),
)


def is_question_back(answer: str, payload: Payload) -> bool:
    """Whether an answer is something to be worked out that stands in the question as it is.

    What is written as the gold answer is written counts as an answer, wherever it stands.

    Args:
        answer: as it was given.
        payload: of the task.
    """
    if not _OPERATOR.search(answer):
        return False
    said = _squeezed(answer)
    asked = _squeezed(" ".join(message.text for message in payload.messages))
    if not said or said == _squeezed(payload.answer):
        return False
    return re.search(rf"(?<![\d.]){re.escape(said)}(?!\d)", asked) is not None


def _squeezed(text: str) -> str:
    tight = "".join(text.split())
    for pattern, spelling in _SPELLINGS:
        tight = pattern.sub(spelling, tight)
    return "".join(character for character in tight if character not in "${}").rstrip(".")
