"""JSON answers against a schema: gold, near miss, attack, and the kind of every error."""

import json

import pytest

from rollwright.verifiers import AnswerRule, json_schema_verifier
from tests.verifiers.submissions import submitted, verdict_of

VERIFIER = json_schema_verifier(AnswerRule(reasoning="opened_in_output"))
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
GOLD = '{"name": "ann", "age": 3, "tags": ["a"]}'


def verdict(text: str, schema=SCHEMA, **info):
    return verdict_of(VERIFIER, submitted(text, "see schema", info={"schema": schema, **info}))


def kind_of(text: str, schema=SCHEMA, **info) -> str:
    """The recorded kind of the error."""
    found = verdict(text, schema, **info)
    assert found.outcome == 0.0
    (component,) = found.components
    assert component.value == 1.0
    assert found.evidence.startswith(component.name.removeprefix("error."))
    return component.name.removeprefix("error.")


@pytest.mark.row("S380")
@pytest.mark.parametrize(
    "text",
    [GOLD, f"```json\n{GOLD}\n```", f"```\n{GOLD}\n```", f"  {GOLD}\n", '{"age": 3.0, "name": "ann"}',
     f"<think>{{}}</think>{GOLD}"],
)  # fmt: skip
def test_a_value_that_the_schema_allows_is_paid(text: str) -> None:
    assert verdict(text).outcome == 1.0


@pytest.mark.row("S380")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"name": "ann"}', "required"),
        ('{"name": "ann", "age": "3"}', "type"),
        ('{"name": "ann", "age": true}', "type"),
        ('{"name": "ann", "age": 3.5}', "type"),
        ('{"name": "ann", "age": -1}', "minimum"),
        ('{"name": "Ann", "age": 1}', "pattern"),
        ('{"name": "аnn", "age": 1}', "pattern"),
        ('{"name": "ann", "age": 1, "more": 1}', "additionalProperties"),
        ('{"name": "ann", "age": 1, "tags": ["c"]}', "enum"),
        ('{"name": "ann", "age": 1, "tags": ["a", "a"]}', "uniqueItems"),
        ('{"name": "ann", "age": 1, "name": "bob"}', "duplicate_key"),
        ('{"name": "ann", "age": NaN}', "not_a_number"),
        ('{"name": "ann", "age": Infinity}', "not_a_number"),
        ('{"name": "ann", "age": 1e999}', "not_a_number"),
        ('{"name": "ann", "age": ' + "9" * 5000 + "}", "not_a_number"),
        (f"{GOLD} {GOLD}", "trailing_text"),
        (f"{GOLD} is my answer", "trailing_text"),
        (f"Here it is: {GOLD}", "syntax"),
        ("{'name': 'ann', 'age': 3}", "syntax"),
        ('{"name": "ann", "age": 3,}', "syntax"),
        ("[" * 100_000, "too_deep"),
        ("[" * 80 + "]" * 80, "too_deep"),
        ("[" + "1," * 20_000 + "1]", "too_large"),
        ('"' + "a" * 1_000_000 + '"', "too_long"),
        ("null", "type"),
        ("[]", "type"),
    ],
)
def test_what_the_schema_or_json_forbids_is_refused_by_kind(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_empty_answers_and_answers_in_reasoning_alone_are_none() -> None:
    for text in ("", "  ", f"<think>{GOLD}</think>", f"<think>{GOLD}"):
        found = verdict(text)
        assert (found.outcome, found.finding) == (0.0, "no_answer")


def test_a_schema_may_stand_as_the_answer_and_a_value_may_be_asked_for() -> None:
    as_gold = submitted(GOLD, json.dumps(SCHEMA))
    assert verdict_of(VERIFIER, as_gold).outcome == 1.0
    assert verdict('{"age": 3, "name": "ann"}', value={"name": "ann", "age": 3}).outcome == 1.0
    assert kind_of('{"age": 4, "name": "ann"}', value={"name": "ann", "age": 3}) == "value"
    assert kind_of("true", {"type": ["boolean", "integer"]}, value=1) == "value"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"name": "ann", "age": 3},
        {"type": "no such type"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#"},
        {"type": "object", "properties": 3},
        {"type": "string", "pattern": "("},
        [1, 2],
        "no JSON",
    ],
)
def test_a_schema_that_is_none_or_that_lies_elsewhere_gives_no_score(schema) -> None:
    text = '"x"' if schema == {"type": "string", "pattern": "("} else GOLD
    assert verdict(text, schema).outcome == "grader_error"


def test_a_pattern_that_backtracks_for_ever_is_ended() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert verdict('"' + "a" * 50 + '"', schema).outcome == 1.0
    hopeless = {"type": "string", "pattern": "^(a|aa)+$"}
    assert verdict('"' + "a" * 60 + '!"', hopeless).outcome == 0.0


@pytest.mark.parametrize("key", ["additionalProperties", "patternProperties"])
def test_a_key_of_the_answer_keeps_no_pattern_busy_for_ever(key: str) -> None:
    patterns: dict[str, object] = {"additionalProperties": False, "patternProperties": {"^(a|aa)+$": {"const": 1}}}
    schema = {"type": "object", key: patterns.pop(key), **patterns}
    assert verdict('{"aaa": 1}', schema).outcome == 1.0
    assert kind_of('{"b": 1}', schema) == "additionalProperties"
    assert kind_of('{"' + "a" * 60 + '!": 1}', schema) == "pattern"


def test_patterns_beside_unevaluated_properties_are_refused_by_name() -> None:
    schema = {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"^a": True}}]}
    assert verdict('{"a": 1}', schema).outcome == "grader_error"
    assert "additionalProperties instead" in verdict('{"a": 1}', schema).evidence


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("^[a-z]+$", "abc", r"abc\n"),
        (r"^\d{3}$", "123", "١٢٣"),
        (r"^[\d.]+$", "1.5", "١.٥"),
        (r"^\w+$", "name_1", "нame"),
        (r"^[$]\d+$", "$5", r"$5\n"),
        (r"^\$\d$", "$5", "5"),
        (r"^[^\W]\D$", "ab", "a5"),
        (r"^[\]$]$", "$", "a"),
    ],
)
def test_patterns_mean_what_json_schema_says(pattern: str, right: str, wrong: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert verdict(f'"{right}"', schema).outcome == 1.0
    assert kind_of(f'"{wrong}"', schema) == "pattern"


def test_pattern_properties_and_references_within_the_schema_hold() -> None:
    schema = {"patternProperties": {"^n_": {"$ref": "#/$defs/number"}}, "$defs": {"number": {"type": "number"}}}
    assert verdict('{"n_a": 1, "b": "x"}', schema).outcome == 1.0
    assert kind_of('{"n_a": "1"}', schema) == "type"
