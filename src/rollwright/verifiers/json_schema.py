"""The answer is one JSON value that a schema allows."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from typing import Any, NoReturn, cast

import jsonschema
import regex
from jsonschema import Draft202012Validator, validators
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Json, Payload
from rollwright.tasks.schema_patterns import BoundedPatterns, PatternRules, has_unbounded_patterns
from rollwright.verifiers.answers import AnswerRule, final_text
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, gold_payload, no_answer

__all__ = ["JsonTextError", "json_schema_verifier", "read_strict_json"]

_MAX_CHARACTERS = 200_000
_MAX_VALUES = 5000
_MAX_DEPTH = 64
_MAX_DIGITS = 400
_MAX_REFERENCES = 20_000
"""Followed for one answer: where a schema refers to itself in two branches, they double with each of its levels."""
_PATTERNS_S = 5.0
"""Of all patterns on all texts of one answer."""
_FENCED = regex.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", regex.DOTALL | regex.IGNORECASE)
_TOKEN = regex.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", regex.DOTALL)
"""What a pattern has whole: an escape, a class of characters, the end."""
_ESCAPE = regex.compile(r"\\.", regex.DOTALL)
_OUTSIDE = {"$": r"\Z", r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[A-Za-z0-9_]", r"\W": "[^A-Za-z0-9_]"}
_IN_CLASS = {r"\d": "0-9", r"\w": "A-Za-z0-9_"}
_REVISION = 4


class JsonTextError(ValueError):
    """Text that is not exactly one JSON value; `kind` names what is wrong with it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _CostlyError(JsonTextError):
    """A pattern of the schema, or the schema's references to itself, took too long on an answer."""


def json_schema_verifier(rule: AnswerRule, *, name: str = "json_schema") -> FunctionVerifier:
    """1 where the final text is one JSON value that the task's schema allows, else 0 with the kind of the error.

    The schema is `info.schema`, or the gold answer itself, draft 2020-12 unless it names another. Nothing may stand
    beside the value but one fence around it; repeated keys, NaN and infinities are no JSON. Where `info.value` is
    given, the answer must also equal it.

    Args:
        rule: which text is final; the form of answers does not matter here.
        name: in the tables.
    """

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        validator = _validator(_schema_of(payload))
        text = final_text(submission, rule).text
        if not text.strip():
            return no_answer(0)
        try:
            value = read_strict_json(_unfenced(text))
        except JsonTextError as error:
            return _refused(error.kind, str(error), finding=UNPARSABLE)
        try:
            problem = next(iter(validator.iter_errors(value)), None)
        except _CostlyError as error:
            return _refused(error.kind, str(error), finding=UNPARSABLE)
        except (Unresolvable, RecursionError, regex.error) as error:
            raise GoldError(f"the schema cannot be applied: {type(error).__name__}: {error}") from error
        if problem is not None:
            return _refused(str(problem.validator), f"at {problem.json_path}: {problem.message}")
        if "value" in payload.info and not _equal(value, payload.info["value"]):
            return _refused("value", "another value than the one asked for")
        return Grade(value=1.0, evidence="valid")

    revision = digest([_REVISION, name, rule.parts(), version("jsonschema")])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade, deadline_s=30.0)


def read_strict_json(text: str) -> Json:
    """One JSON value and nothing else.

    Raises:
        JsonTextError: of kind `too_long`, `too_deep`, `too_large`, `duplicate_key`, `not_a_number`, `trailing_text` or
            `syntax`.
    """
    if len(text) > _MAX_CHARACTERS:
        raise JsonTextError("too_long", f"{len(text)} characters; at most {_MAX_CHARACTERS} are read")
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_integer)
    stripped = text.strip()
    try:
        value, end = decoder.raw_decode(stripped)
    except RecursionError as error:
        raise JsonTextError("too_deep", "nested too deeply") from error
    except JsonTextError:
        raise
    except ValueError as error:
        raise JsonTextError("syntax", f"no JSON: {error}") from error
    if stripped[end:].strip():
        raise JsonTextError("trailing_text", f"text behind the value: {stripped[end : end + 60]!r}")
    _measure(value)
    return cast("Json", value)


def _measure(value: object) -> None:
    """Refuse what a schema could need very long for."""
    level, depth, seen = [value], 0, 0
    while level:
        seen += len(level)
        if seen > _MAX_VALUES:
            raise JsonTextError("too_large", f"more than {_MAX_VALUES} values")
        if depth > _MAX_DEPTH:
            raise JsonTextError("too_deep", f"more than {_MAX_DEPTH} levels")
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                below += cast("list[object]", one)
            elif isinstance(one, float) and one in (float("inf"), float("-inf")):
                raise JsonTextError("not_a_number", "a number beyond all floats")
        level, depth = below, depth + 1


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise JsonTextError("duplicate_key", f"the key {twice[:60]!r} stands twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise JsonTextError("not_a_number", f"an integer of {len(text)} digits; at most {_MAX_DIGITS} are read")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise JsonTextError("not_a_number", f"{name} is no JSON number")


def _unfenced(text: str) -> str:
    if len(text) > _MAX_CHARACTERS:
        return text
    match = _FENCED.match(text) if text.lstrip().startswith("```") else None
    return match[1] if match else text


def _schema_of(payload: Payload) -> Mapping[str, object]:
    given: object = payload.info.get("schema", payload.answer)
    if isinstance(given, str):
        try:
            given = read_strict_json(given)
        except JsonTextError as error:
            raise GoldError(f"the schema is {error}") from error
    if not isinstance(given, Mapping):
        raise GoldError(f"the schema is a {type(given).__name__}; it must be an object")
    schema = cast("Mapping[str, object]", given)
    if has_unbounded_patterns(schema):
        raise GoldError(
            "the schema has patternProperties and unevaluatedProperties, which match patterns without a bound on their "
            "time; write additionalProperties instead"
        )
    known = set(Draft202012Validator.VALIDATORS) | {"$schema", "$defs", "definitions", "title", "description", "$id"}
    if not known & set(schema):
        raise GoldError(
            f"none of the schema's keys {sorted(schema)[:5]} is one of JSON Schema: it would allow anything"
        )
    return schema


def _validator(schema: Mapping[str, object]) -> Validator:
    """A validator that fetches nothing and whose patterns end in time."""
    kind = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except (jsonschema.SchemaError, RecursionError) as error:
        raise GoldError(f"the schema is none: {type(error).__name__}: {error}"[:400]) from error
    rules = PatternRules(total_s=_PATTERNS_S, translated=_as_in_schemas, unexpected=_unexpected, slow=_slow)
    own = {**BoundedPatterns(rules).checks, **_counted(cast("Any", kind).VALIDATORS)}
    bounded = cast("Any", validators).extend(kind, own)
    return cast("Validator", bounded(dict(schema), registry=cast("Any", Registry)()))


def _counted(checks: Mapping[str, Callable[..., Iterable[object] | None]]) -> dict[str, object]:
    """The checks that follow references, with one bound for all of them."""
    steps = count(1)

    def bounded(check: Callable[..., Iterable[object] | None]) -> Callable[..., Iterator[object]]:
        def follow(*given: object) -> Iterator[object]:
            if next(steps) > _MAX_REFERENCES:
                raise _CostlyError("too_deep", f"more than {_MAX_REFERENCES} references of the schema were followed")
            yield from check(*given) or ()

        return follow

    return {name: bounded(checks[name]) for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in checks}


def _unexpected(key: str) -> str:
    return f"{key[:60]!r} is none of the properties"


def _slow(pattern: str, text: str) -> _CostlyError:
    return _CostlyError("pattern", f"{pattern!r} took too long on {text[:60]!r}")


def _as_in_schemas(pattern: str) -> str:
    """The pattern with the meaning that JSON Schema gives it: `$` is the very end, digits and letters are ASCII."""
    return _TOKEN.sub(_translated, pattern)


def _translated(match: regex.Match[str]) -> str:
    token = match[0]
    if token.startswith("["):
        return _ESCAPE.sub(lambda found: _IN_CLASS.get(found[0], found[0]), token)
    return _OUTSIDE.get(token, token)


def _refused(kind: str, why: str, *, finding: str | None = None) -> Grade:
    """A refusal; the kind of the error stands in the evidence and as a component."""
    return Grade(
        value=0.0,
        finding=finding,
        evidence=f"{kind}: {why}"[:1000],
        components=(NamedValue(name=f"error.{kind}", value=1.0),),
    )


def _equal(given: Json, wanted: Json) -> bool:
    """JSON equality: true is not 1, but 1 is 1.0; the order of keys does not count."""
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(given, str) or isinstance(wanted, str):
        return given == wanted and isinstance(given, str)
    if isinstance(given, Mapping) and isinstance(wanted, Mapping):
        return given.keys() == wanted.keys() and all(_equal(given[key], wanted[key]) for key in given)
    if isinstance(given, Sequence) and isinstance(wanted, Sequence):
        return len(given) == len(wanted) and all(_equal(a, b) for a, b in zip(given, wanted, strict=True))
    return given == wanted
