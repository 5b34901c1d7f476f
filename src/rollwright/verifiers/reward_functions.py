"""Reward functions that were written for other systems, bound by the names of their parameters.

| form | told by | called with |
|---|---|---|
| batch (TRL) | `completions` | lists, one entry a trajectory, by keyword; other names are columns of the task |
| scalar (veRL) | `solution_str` | `data_source, solution_str, ground_truth, extra_info` |
| by name (verifiers) | any of `prompt, completion, answer, state, task, info` | those it names |

What cannot be bound is refused when the verifier is made, or, where it depends on the task, is no score.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, cast

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.tasks import Payload
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import bad_gold, gold_payload

__all__ = ["RewardForm", "RewardFunctionVerifier", "reward_function_verifier"]

RewardForm = Literal["batch", "scalar", "by_name"]
_SCALAR = ("data_source", "solution_str", "ground_truth", "extra_info")
_BY_NAME = ("prompt", "completion", "answer", "state", "task", "info")
_NOT_HERE = (
    "self", "cls", "completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric", "environments",
    "queries", "labels", "args", "sample", "trace", "runtime", "parser", "judge", "tokenizer",
)  # fmt: skip
"""Parameters of such functions that only their own system can give."""
_ANSWER = ("answer", "ground_truth", "solution")
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardFunctionVerifier:
    """A `record.Verifier` that asks a bound function."""

    function: Callable[..., object]
    form: RewardForm
    needed: frozenset[str]
    """Parameters without a default."""
    offered: frozenset[str]
    """All parameters that may be passed."""
    takes_more: bool
    """It has `**kwargs`, and gets all there is."""
    text: Literal["text", "messages"]
    """How prompts and completions are passed: as text, or as lists of `{"role", "content"}`."""
    name: str
    revision: str
    deadline_s: float = 30.0
    scope: Literal["trajectory", "group"] = "trajectory"

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Ask the function; a fault of a task's data is a grading error of that one alone."""
        verdicts: dict[str, Verdict] = {}
        read: list[tuple[Submission, Payload]] = []
        for submission in submissions:
            try:
                read.append((submission, gold_payload(submission)))
            except GoldError as error:
                verdicts[submission.trajectory_id] = bad_gold(submission, self.name, self.revision, error)
        answers: Sequence[object]
        if self.form == "batch":
            answers = await self._batch(read) if read else ()
        else:
            answers = [await _settled(self.function(**self._single(*each))) for each in read]
        for (submission, _), answer in zip(read, answers, strict=True):
            verdicts[submission.trajectory_id] = self._verdict(submission, answer)
        return [verdicts[submission.trajectory_id] for submission in submissions]

    async def _batch(self, read: Sequence[tuple[Submission, Payload]]) -> Sequence[object]:
        rows = [self._columns(submission, payload) for submission, payload in read]
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if self._is_passed(name)]
        if missing := sorted(self.needed - set(names)):
            raise VerifierSetupError(f"reward function {self.name} needs {missing}, which no task gives")
        found = await _settled(self.function(**{name: [row.get(name) for row in rows] for name in names}))
        if not isinstance(found, Sequence) or isinstance(found, str):
            raise TypeError(f"reward function {self.name} gave a {type(found).__name__}; it must give a list")
        return cast("Sequence[object]", found)

    def _single(self, submission: Submission, payload: Payload) -> dict[str, object]:
        prompt, completion = self._prompt(payload), self._completion(submission)
        info = dict(payload.info)
        if self.form == "scalar":
            given: dict[str, object] = {
                "data_source": submission.task.source,
                "solution_str": completion,
                "ground_truth": payload.answer,
                "extra_info": {**info, "split": submission.task.split, "index": submission.task.task_id},
            }
        else:
            given = {
                "prompt": prompt,
                "completion": completion,
                "answer": payload.answer,
                "task": submission.task.source,
                "info": info,
            }
            given["state"] = {
                **given,
                "trajectory_id": submission.trajectory_id,
                "terminal_reason": submission.terminal_reason,
            }
        return {name: value for name, value in given.items() if self._is_passed(name)}

    def _columns(self, submission: Submission, payload: Payload) -> dict[str, object]:
        given: dict[str, object] = {name: payload.answer for name in _ANSWER}
        given |= payload.info
        return given | {"prompts": self._prompt(payload), "completions": self._completion(submission)}

    def _is_passed(self, name: str) -> bool:
        return self.takes_more or name in self.offered

    def _prompt(self, payload: Payload) -> object:
        if self.text == "messages":
            return [{"role": message.role, "content": message.text} for message in payload.messages]
        return "\n\n".join(message.text for message in payload.messages)

    def _completion(self, submission: Submission) -> object:
        if self.text == "messages":
            roles = {"policy": "assistant", "reasoning": "assistant", "tool": "tool"}
            said = [(roles.get(passage.kind, "user"), passage.text) for passage in submission.passages]
            begins = next((place for place, (role, _) in enumerate(said) if role == "assistant"), len(said))
            return [{"role": role, "content": text} for role, text in said[begins:]]
        return "".join(p.text for p in submission.passages if p.kind in ("policy", "reasoning"))

    def _verdict(self, submission: Submission, answer: object) -> Verdict:
        value, components, notes = _said(self.name, answer)
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope=self.scope,
            outcome="grader_error" if value is None else value,
            components=components,
            evidence="the function gave None: it does not score this one" if value is None else notes,
        )


def reward_function_verifier(
    function: Callable[..., object],
    *,
    name: str = "",
    revision: str = "",
    text: Literal["auto", "text", "messages"] = "auto",
    scope: Literal["trajectory", "group"] = "trajectory",
) -> RewardFunctionVerifier:
    """Bind a reward function by its parameters' names.

    Args:
        function: plain or async; it returns a number, None for no score, or a map with `score` (a batch: a list).
        name: in the tables; empty: the function's.
        revision: empty: a digest of its source text.
        text: how prompts and completions are passed. `auto`: messages to a function by name, else text.
        scope: `group`: a batch function sees all attempts at a task at once.

    Raises:
        VerifierSetupError: for parameters that nothing here can fill.
    """
    if not callable(function):
        raise VerifierSetupError(f"a {type(function).__name__} is no function")
    parameters = inspect.signature(function).parameters
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    named = [p for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    form = _form({parameter.name for parameter in named}, shown)
    known = {"batch": None, "scalar": _SCALAR, "by_name": _BY_NAME}[form]
    needed = {p.name for p in named if p.default is p.empty}
    foreign = {n for n in needed if n in _NOT_HERE or (known is not None and n not in known)}
    if any(p.kind is p.POSITIONAL_ONLY for p in parameters.values()):
        foreign.add("positional-only parameters")
    if foreign or (scope == "group" and form != "batch"):
        raise VerifierSetupError(
            f"reward function {shown}, taken as form {form}, needs {sorted(foreign) or 'scope trajectory'}: "
            "nothing here gives that. Bound are completions and columns (lists), solution_str and ground_truth, or "
            f"{', '.join(_BY_NAME)}; wrap the function in one of those"
        )
    offered = {p.name for p in named if (known is None or p.name in known) and p.name not in _NOT_HERE}
    auto: Literal["text", "messages"] = "messages" if form == "by_name" else "text"
    return RewardFunctionVerifier(
        function=function,
        form=form,
        needed=frozenset(needed),
        offered=frozenset(offered),
        takes_more=any(p.kind is p.VAR_KEYWORD for p in parameters.values()),
        text=auto if text == "auto" else text,
        name=shown,
        revision=revision or digest([_REVISION, shown, form, text, scope, _source(function)])[:16],
        scope=scope,
    )


def _form(names: set[str], shown: str) -> RewardForm:
    """The one form that the names tell."""
    told: list[RewardForm] = []
    if "completions" in names:
        told.append("batch")
    if "solution_str" in names:
        told.append("scalar")
    if names & {"completion", "state"} or (names and names <= set(_BY_NAME)):
        told.append("by_name")
    if len(told) != 1:
        raise VerifierSetupError(
            f"reward function {shown}({', '.join(sorted(names))}) is of {'several' if told else 'no known'} form; "
            "it takes completions, or solution_str, or some of " + ", ".join(_BY_NAME)
        )
    return told[0]


def _said(name: str, answer: object) -> tuple[float | None, tuple[NamedValue, ...], str]:
    """Value, components and notes of what a function gave for one trajectory."""
    if not isinstance(answer, Mapping):
        return _number(name, answer), (), ""
    said = cast("Mapping[object, object]", answer)
    if "score" not in said:
        raise TypeError(f"reward function {name} gave a map without `score`: {sorted(map(str, said))}")
    numbers = [
        NamedValue(name=str(key), value=float(value))
        for key, value in said.items()
        if key != "score" and isinstance(value, Real) and math.isfinite(value)
    ]
    notes = [f"{key}: {value!s:.200}" for key, value in said.items() if not isinstance(value, Real)]
    return _number(name, said["score"]), tuple(numbers), "; ".join(notes)[:2000]


def _number(name: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError(
            f"reward function {name} gave {value!r:.80}; a finite number, None or a map with score is allowed"
        )
    return float(value)


async def _settled(answer: object) -> object:
    return await answer if inspect.isawaitable(answer) else answer


def _source(function: Callable[..., object]) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return (
            f"{function.__module__}.{function.__qualname__}" if inspect.isfunction(function) else repr(type(function))
        )
