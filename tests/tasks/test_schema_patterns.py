"""Patterns of a schema end, each and together, and say what whoever asks wants said."""

import time

import pytest
from jsonschema import Draft202012Validator, validators

from rollwright.tasks.schema_patterns import BoundedPatterns, PatternRules, has_unbounded_patterns


class TooSlowError(Exception):
    pass


def unchanged(pattern: str) -> str:
    return pattern


def errors(schema, value, *, total_s=5.0, translated=unchanged):
    rules = PatternRules(
        total_s=total_s,
        translated=translated,
        unexpected=lambda key: f"no {key}",
        slow=lambda pattern, text: TooSlowError(f"{pattern} on {text[:3]}"),
    )
    bounded = validators.extend(Draft202012Validator, dict(BoundedPatterns(rules).checks))
    return [error.message for error in bounded(schema).iter_errors(value)]


def test_patterns_of_texts_and_keys_say_what_jsonschema_says_of_them() -> None:
    schema = {
        "properties": {"a": {"pattern": "^x"}},
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": False,
    }
    for value in ({"a": "xy", "n_1": 3}, {"a": 1}, {}, [], "x"):
        assert errors(schema, value) == []
        assert list(Draft202012Validator(schema).iter_errors(value)) == []
    assert errors(schema, {"a": "y"}) == ["'y' does not match '^x'"]
    assert errors(schema, {"n_1": "3"}) == ["'3' is not of type 'integer'"]
    assert errors(schema, {"b": 1}) == ["no b"]
    assert errors({"additionalProperties": {"type": "string"}}, {"b": 1}) == ["1 is not of type 'string'"]


def swapped(pattern: str) -> str:
    return pattern.replace("a", "b")


def test_a_pattern_means_what_its_translation_says() -> None:
    assert errors({"pattern": "a"}, "b", translated=swapped) == []


@pytest.mark.parametrize("schema", [{"pattern": "^(a|aa)+$"}, {"patternProperties": {"^(a|aa)+$": {}}}])
def test_a_pattern_that_would_not_end_is_ended(schema) -> None:
    hopeless = "a" * 60 + "!"
    began = time.monotonic()
    with pytest.raises(TooSlowError, match="on aaa"):
        errors(schema, hopeless if "pattern" in schema else {hopeless: 1})
    assert time.monotonic() - began < 30.0


def test_patterns_that_are_each_quick_enough_have_one_bound_together() -> None:
    """Each takes its time and no more than a single one may."""
    with pytest.raises(TooSlowError):
        errors({"items": {"pattern": "^(a|aa)+$"}}, ["a" * 24 + "!"] * 10_000, total_s=0.5)


@pytest.mark.parametrize(
    ("schema", "is_unbounded"),
    [
        ({"unevaluatedProperties": False, "allOf": [{"patternProperties": {"^a": True}}]}, True),
        ({"$defs": {"a": {"patternProperties": {}, "anyOf": [{"unevaluatedProperties": False}]}}}, True),
        ({"patternProperties": {"^a": True}, "additionalProperties": False}, False),
        ({"unevaluatedProperties": False}, False),
        (True, False),
    ],
)
def test_a_schema_whose_patterns_no_bound_reaches_is_known(schema, is_unbounded: bool) -> None:
    assert has_unbounded_patterns(schema) is is_unbounded
