"""Function calls compared with the expected ones: equal calls in any order pass, a wrong argument fails.

The expected calls stand in the task as in the answer files of the Berkeley function-calling leaderboard, a list of

    {"find_flight": {"origin": ["Oslo"], "seats": [1, 2], "class": ["economy", ""]}}

one map a call: each argument has the values that are accepted, and `""` among them says that it may be left out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Json, read_json
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload

__all__ = ["ExpectedCall", "GivenCall", "function_call_verifier", "read_expected_calls"]

TOOL_CALLS = "tool_calls.json"
"""The artifact that a tool environment leaves with `call_log`: a list of {tool, arguments, status}."""
UNREADABLE = "unreadable_calls"
CallOrder = Literal["any", "given"]
_TAG_END = "</tool_call>"
"""Behind the last one no call is looked for: each that is begun would be followed to the end of the text."""
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_LOOSE = re.compile(r"[ ,./\-_*^'\"]")
_MOST_CALLS = 64
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCall:
    """A call as the policy wrote it."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A call with the values that are accepted."""

    name: str
    accepted: Mapping[str, Sequence[Json]]

    def fits(self, call: GivenCall) -> bool:
        """Whether the call is this one: name, no argument too many, none missing, every value accepted."""
        if call.name != self.name or set(call.arguments) - set(self.accepted):
            return False
        for name, values in self.accepted.items():
            if name not in call.arguments:
                if "" not in values:
                    return False
            elif not any(_same(value, call.arguments[name]) for value in values):
                return False
        return True


def function_call_verifier(*, order: CallOrder = "any", name: str = "function_calls") -> FunctionVerifier:
    """1 where the calls of an episode are the expected ones of `info.expected_calls`, one for one, else 0.

    Args:
        order: `any`: calls may come in any order; `given`: in the order of the list.
        name: in the tables.

    Calls are read from the artifact of the tool environment, else from the text of the policy's turns: tagged calls, or
    a turn that is one JSON list of {name, arguments}. Text is compared without case, blanks and punctuation; whole
    numbers pass where fractions are expected, and truth values are no numbers.
    """

    def grade(submission: Submission) -> Grade:
        expected = read_expected_calls(gold_payload(submission).info.get("expected_calls"))
        given = _given_calls(submission)
        if given is None:
            return Grade(value=0.0, finding=UNREADABLE, evidence="calls that are no {name, arguments}")
        matched = _in_order(expected, given) if order == "given" else _in_any_order(expected, given)
        is_right = matched == len(expected) == len(given)
        return Grade(
            value=float(is_right),
            evidence=f"{matched} of {len(expected)} expected calls among {len(given)}",
            components=(
                NamedValue(name="matched", value=float(matched)),
                NamedValue(name="expected", value=float(len(expected))),
                NamedValue(name="given", value=float(len(given))),
            ),
        )

    return FunctionVerifier(name=name, revision=digest([_REVISION, name, order])[:16], grade=grade)


def read_expected_calls(value: Json) -> tuple[ExpectedCall, ...]:
    """Read expected calls; an empty list says that no call is right.

    Raises:
        GoldError: where it is no such list.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise GoldError("info.expected_calls must be a list of {function: {argument: [accepted values]}}")
    found: list[ExpectedCall] = []
    for entry in value:
        if not isinstance(entry, Mapping) or len(entry) != 1:
            raise GoldError(f"an expected call is one map of one function: {json.dumps(entry)[:80]}")
        ((name, accepted),) = entry.items()
        if not isinstance(accepted, Mapping) or not all(_is_list(values) and values for values in accepted.values()):
            raise GoldError(f"expected call {name}: each argument needs a list of accepted values")
        found.append(ExpectedCall(name=name, accepted=cast("Mapping[str, Sequence[Json]]", accepted)))
    if len(found) > _MOST_CALLS:
        raise GoldError(f"{len(found)} expected calls; at most {_MOST_CALLS} are compared")
    return tuple(found)


def _given_calls(submission: Submission) -> tuple[GivenCall, ...] | None:
    """The calls of an episode; None where one cannot be read."""
    raw = submission.artifacts.get(TOOL_CALLS)
    try:
        if raw is not None:
            rows = cast("Sequence[Mapping[str, Json]]", read_json(raw.decode()))
            return tuple(_call(row["tool"], read_json(str(row["arguments"]))) for row in rows)
        turns = [passage.text for passage in submission.passages if passage.kind == "policy"]
        found: list[GivenCall] = []
        for turn in turns:
            end = turn.rfind(_TAG_END) + len(_TAG_END)
            written = [read_json(body) for body in _TAGGED.findall(turn, 0, end)] or _listed(turn)
            calls = cast("Sequence[Mapping[str, Json]]", written)
            found += [_call(call["name"], call["arguments"]) for call in calls]
        return tuple(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _listed(turn: str) -> Sequence[Json]:
    """The calls of a turn that is one JSON list; a turn of anything else has none."""
    text = turn.strip()
    if not text.startswith("["):
        return ()
    loaded = read_json(text)
    return loaded if isinstance(loaded, list) else ()


def _call(name: Json, arguments: Json) -> GivenCall:
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise TypeError("a call has a name and a map of arguments")
    return GivenCall(name=name, arguments=arguments)


def _in_order(expected: Sequence[ExpectedCall], given: Sequence[GivenCall]) -> int:
    return sum(one.fits(call) for one, call in zip(expected, given, strict=False))


def _in_any_order(expected: Sequence[ExpectedCall], given: Sequence[GivenCall]) -> int:
    """The most expected calls that can be given calls of their own: a matching, by augmenting paths."""
    if len(given) > _MOST_CALLS:
        return 0
    fits = [[place for place, call in enumerate(given) if one.fits(call)] for one in expected]
    taken: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        for at in fits[number]:
            if at not in tried:
                tried.add(at)
                if at not in taken or place(taken[at], tried):
                    taken[at] = number
                    return True
        return False

    return sum(place(number, set()) for number in range(len(expected)))


def _same(wanted: Json, given: Json) -> bool:
    """Equal values: the types count, and what in text carries no meaning does not."""
    if isinstance(wanted, bool) or isinstance(given, bool) or wanted is None or given is None:
        return type(wanted) is type(given) and wanted == given
    if isinstance(wanted, str) or isinstance(given, str):
        return isinstance(wanted, str) and isinstance(given, str) and _loose(wanted) == _loose(given)
    if isinstance(wanted, int | float) and isinstance(given, int | float):
        return wanted == given and not (isinstance(wanted, int) and isinstance(given, float))
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return set(wanted) == set(given) and all(_same(wanted[name], given[name]) for name in wanted)
    if _is_list(wanted) and _is_list(given):
        one, other = cast("Sequence[Json]", wanted), cast("Sequence[Json]", given)
        return len(one) == len(other) and all(_same(w, g) for w, g in zip(one, other, strict=True))
    return False


def _loose(text: str) -> str:
    return _LOOSE.sub("", text).casefold()


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
