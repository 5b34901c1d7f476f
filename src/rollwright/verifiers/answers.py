"""What of an episode is graded: the visible text of the last turn, and the answer that stands in it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from rollwright.record import Submission, TerminalReason
from rollwright.verifiers.boxes import Box, begins_box, boxes, without_wrapping_boxes
from rollwright.verifiers.errors import VerifierSetupError

__all__ = [
    "AnswerRule",
    "GradedText",
    "Reading",
    "Reasoning",
    "after_reasoning",
    "final_text",
    "read_answer",
    "tagged_texts",
]

Reasoning = Literal["none", "opened_by_prompt", "opened_in_output"]
"""Whether a turn begins with reasoning, and who writes its opening tag."""
_REVISION = "3"
"""Of how an answer is read out of a text."""
_PHRASE = re.compile(r"^\W*####|\banswer(?:\s+is\b)?\W{0,3}[:=]|\banswer\s+is\b", re.IGNORECASE)
"""Behind it an answer stands, where nobody asked for a form."""
_SAYING = re.compile("answer|####", re.IGNORECASE)
"""Stands in every line with such a phrase."""
_DENIED = re.compile(
    r"(?:\b(?:not|never|no|wrong|incorrect|false)|n't)[\s*_\"']+"
    r"(?:(?:the|an?|my|our|final|right|correct)[\s*_\"']+){0,3}$",
    re.IGNORECASE,
)
"""Before such a phrase: what stands behind it is said to be no answer."""
_DOUBTED = re.compile(
    r"(?:\b(?:not|never|cannot|nobody|no one)|n't)\s+(?:\w+\s+){0,2}?"
    r"(?:believe|think|say|know|claim|agree|be|sure|certain|convinced|true|correct)\b(?:\s+(?:that|to\s+say|whether|if))*"
    r"\s+(?:the|my|our)?\s*(?:(?:final|right|correct)\s+)?$"
    r"|\b(?:whether|unlikely|false|wrong|incorrect|untrue)\s+(?:(?:that|to\s+\w+)\s+){0,2}"
    r"(?:the|my|our)\s+(?:(?:final|right|correct)\s+)?$",
    re.IGNORECASE,
)
"""Likewise, where the sentence around the phrase takes back what it says: "I do not think that the answer is"."""
_DENYING = re.compile(r"no|n't|never|wrong|incorrect|false|whether|unlikely|untrue", re.IGNORECASE)
"""Stands in every one of the two."""
_CLOSING = re.compile(r"(?<=[.$])\s*I hope (?:it|this) is correct\W*$", re.IGNORECASE)
_FILLER = re.compile(r"(?:(?:so|thus|then|hence|the|my|our|final|correct)\W*)+", re.IGNORECASE)
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TAG_END = re.compile(r"</answer>", re.IGNORECASE)
_NEAR = 60
"""Characters before a phrase in which it can be denied."""
_WRAPPERS = (("**", "**"), ("__", "__"), ("`", "`"), ("\\(", "\\)"), ("\\[", "\\]"))
_MOST_WRAPPERS = 4

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """Where the answer stands. The rule is part of a verifier's revision."""

    form: Literal["marker", "boxed", "free"] = "marker"
    """`marker`: the rest of a line that begins with the marker. `boxed`: what the braces of `\\boxed{}` hold.
    `free`, for text that no prompt asked a form of: boxes, lines with "answer:", "the answer is" or "####", and the
    whole text where there is neither; they must all say the same."""
    marker: str = "answer:"
    """Upper and lower case alike."""
    several: Literal["last", "only"] = "last"
    """Of several answers the last counts; under `only`, several different ones are none."""
    reasoning: Reasoning = "none"
    """Passages of kind `reasoning` never count; this is for text in which the tags still stand."""
    opening: str = "<think>"
    closing: str = "</think>"

    def __post_init__(self) -> None:
        """Refuse a marker that stands everywhere."""
        if not self.marker.strip():
            raise VerifierSetupError("the answer marker is empty; give a word such as 'answer:'")

    def parts(self) -> list[str]:
        """What decides the reading, for a revision."""
        return [_REVISION, self.form, self.marker, self.several, self.reasoning, self.opening, self.closing]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedText:
    """Text behind the reasoning."""

    text: str
    is_cut: bool
    """The reasoning was never closed: there is no text to grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The answer that was found, if any."""

    answer: str | None
    """None: no answer stands in the text; may be empty where one was begun."""
    num_answers: int


def final_text(submission: Submission, rule: AnswerRule) -> GradedText:
    """What the policy says after everything that the world said, without its reasoning.

    Text before the last tool result, or in passages of reasoning, is never graded: an answer is given at the end.
    """
    spoken: list[str] = []
    for passage in submission.passages:
        if passage.kind == "policy":
            spoken.append(passage.text)
        elif passage.kind != "reasoning":
            spoken.clear()
    return after_reasoning("".join(spoken), rule)


def after_reasoning(text: str, rule: AnswerRule) -> GradedText:
    """Cut the reasoning off, with the prompt's own opening tag taken into account."""
    if rule.reasoning == "none":
        return GradedText(text=text, is_cut=False)
    _, closed, rest = text.rpartition(rule.closing)
    is_open = rule.opening in rest if closed or rule.reasoning == "opened_in_output" else True
    if is_open:
        return GradedText(text="", is_cut=True)
    return GradedText(text=rest.strip(), is_cut=False)


def read_answer(submission: Submission, rule: AnswerRule) -> Reading:
    """The answer of an episode. A line that a limit cut off holds none: its end is unknown."""
    graded = final_text(submission, rule)
    match rule.form:
        case "boxed":
            return _chosen(boxes(graded.text), lambda box: box.held(graded.text), rule.several)
        case "marker":
            return _chosen(_marked(graded.text, rule.marker, was_cut=_was_cut(submission)), str, rule.several)
        case "free":
            return _chosen_free(graded.text, _free(graded.text, was_cut=_was_cut(submission)))


def _chosen(found: Sequence[_Found], read: Callable[[_Found], str], several: Literal["last", "only"]) -> Reading:
    """The last, unless it must be the only one."""
    if not found:
        return Reading(answer=None, num_answers=0)
    last = read(found[-1])
    # Read one by one up to the first that differs: boxes in boxes all do.
    if several == "only" and any(read(one) != last for one in found):
        return Reading(answer=None, num_answers=len(found))
    return Reading(answer=last, num_answers=len(found))


def _chosen_free(text: str, found: Sequence[str | Box]) -> Reading:
    """The last, where all say the same."""
    last, bare, same = "", None, set[str]()
    for one in found:
        last = _unwrapped(one if isinstance(one, str) else one.held(text))
        if last in same:
            continue
        if bare is not None and _bare(last) != bare:
            return Reading(answer=None, num_answers=len(found))
        bare = _bare(last)
        same.add(last)
    return Reading(answer=last if found else None, num_answers=len(found))


def _marked(text: str, marker: str, *, was_cut: bool) -> list[str]:
    lines = text.split("\n")
    if was_cut:
        lines.pop()
    folded = marker.casefold()
    stripped = (line.strip() for line in lines)
    return [line[len(marker) :].strip() for line in stripped if line[: len(marker)].casefold() == folded]


def _free(text: str, *, was_cut: bool) -> list[str | Box]:
    """All answers; a box stands for what it holds."""
    lines = text.split("\n")
    if was_cut:
        lines.pop()
    found: list[str | Box] = []
    for line in filter(_SAYING.search, lines):
        phrases = [phrase for phrase in _PHRASE.finditer(line) if not _is_denied(line, phrase.start())]
        ends = [*(phrase.start() for phrase in phrases[1:]), len(line)]
        for phrase, end in zip(phrases, ends, strict=False):
            said = _without_half_emphasis(_CLOSING.sub("", line[phrase.end() : end].strip(" \t:")))
            if said and not begins_box(said) and not _FILLER.fullmatch(said) and not tagged_texts(said):
                found.append(said)
    found += without_wrapping_boxes(text, boxes(text))
    found += [held.strip() for held in tagged_texts(text)]
    if not found and not was_cut and text.strip():
        found.append(text.strip())
    return found


def tagged_texts(text: str) -> list[str]:
    """What stands between `<answer>` tags."""
    # Behind the last end nothing is looked for: each tag would be followed to the end of the text.
    end = max((match.end() for match in _TAG_END.finditer(text)), default=0)
    return _TAG.findall(text, 0, end)


def _is_denied(line: str, place: int) -> bool:
    before = line[max(0, place - _NEAR) : place]
    if _DENYING.search(before) is None:
        return False
    return _DENIED.search(before) is not None or _DOUBTED.search(before) is not None


def _without_half_emphasis(text: str) -> str:
    """Without the end of an emphasis that began before the answer, or the beginning of one that ends behind it."""
    if text.count("**") % 2:
        text = text.removeprefix("**").strip() if text.startswith("**") else text.removesuffix(".").removesuffix("**")
    return text.strip(" \t:")


def _unwrapped(text: str) -> str:
    """Without what only shows where an answer begins and ends: emphasis, code, and the signs of a formula."""
    for _ in range(_MOST_WRAPPERS):
        ended = text.removesuffix(".") if text.endswith(tuple(f"{mark}." for _, mark in _WRAPPERS)) else text
        for opening, closing in _WRAPPERS:
            if len(ended) > len(opening) + len(closing) and ended.startswith(opening) and ended.endswith(closing):
                text = ended[len(opening) : -len(closing)].strip()
                break
        else:
            break
    return text


def _bare(text: str) -> str:
    return "".join(text.replace("$", "").replace("*", "").split()).rstrip(".").casefold()


def _was_cut(submission: Submission) -> bool:
    return submission.terminal_reason in {reason.value for reason in TerminalReason if reason.is_truncated}
