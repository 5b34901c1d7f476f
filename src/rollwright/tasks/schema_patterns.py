"""Patterns of a JSON schema held against texts that somebody else wrote: each ends, and all of them together do.

jsonschema asks Python's `re`, which follows some patterns for ever. What stands here asks in its place, with a bound.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

import regex
from jsonschema import ValidationError
from jsonschema.protocols import Validator

__all__ = ["BoundedPatterns", "PatternRules", "has_unbounded_patterns"]

_PATTERN_S = 0.25
"""Of one pattern on one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRules:
    """What whoever asks makes of patterns."""

    total_s: float
    """Of all patterns on all texts that one object of patterns sees."""
    translated: Callable[[str], str]
    """The pattern as `regex` reads it."""
    unexpected: Callable[[str], str]
    """What is said of a key that is none of the properties."""
    slow: Callable[[str, str], Exception]
    """What is raised for a pattern that takes too long on a text."""


class BoundedPatterns:
    """The checks of a schema that read patterns, for one value: they share one bound."""

    def __init__(self, rules: PatternRules) -> None:
        """Start with all of the time."""
        self._rules = rules
        self._left_s = rules.total_s

    @property
    def checks(self) -> Mapping[str, Callable[..., Iterator[ValidationError]]]:
        """By the names that jsonschema gives them."""
        return {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
        }

    def _pattern(self, _: Validator, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not self._found(pattern, instance):
            yield ValidationError(f"{instance[:60]!r} does not match {pattern!r}")

    def _pattern_properties(
        self,
        validator: Any,  # noqa: ANN401 - descend is no part of the protocol
        patterns: Mapping[str, object],
        instance: object,
        schema: object,
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for pattern, below in patterns.items():
                for key, value in cast("dict[str, object]", instance).items():
                    if self._found(pattern, key):
                        yield from validator.descend(value, below, path=key, schema_path=pattern)

    def _additional_properties(
        self,
        validator: Any,  # noqa: ANN401 - descend is no part of the protocol
        below: object,
        instance: object,
        schema: Mapping[str, Any],
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        patterns: Sequence[str] = tuple(schema.get("patternProperties", {}))
        for key, value in cast("dict[str, object]", instance).items():
            if key in schema.get("properties", {}) or any(self._found(pattern, key) for pattern in patterns):
                continue
            if below is False:
                yield ValidationError(self._rules.unexpected(key))
            else:
                yield from validator.descend(value, below, path=key)

    def _found(self, pattern: str, text: str) -> bool:
        began = perf_counter()
        try:
            bound_s = min(_PATTERN_S, self._left_s)
            return regex.search(self._rules.translated(pattern), text, timeout=bound_s) is not None
        except TimeoutError as error:
            raise self._rules.slow(pattern, text) from error
        finally:
            self._left_s = max(self._left_s - (perf_counter() - began), 1e-3)


def has_unbounded_patterns(schema: object) -> bool:
    """Whether a schema holds keys against patterns in a place that no bound reaches: `unevaluatedProperties`."""
    names: set[str] = set()
    level = [schema]
    while level:
        maps = [cast("Mapping[str, object]", one) for one in level if isinstance(one, Mapping)]
        lists = [cast("Sequence[object]", one) for one in level if isinstance(one, list)]
        names.update(name for one in maps for name in one)
        level = [below for one in maps for below in one.values()] + [below for one in lists for below in one]
    return {"patternProperties", "unevaluatedProperties"} <= names
