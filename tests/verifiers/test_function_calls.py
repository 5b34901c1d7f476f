"""Function calls against the answer format of the Berkeley leaderboard, on a sample made here."""

import json

import pytest

from rollwright.record import Submission
from rollwright.verifiers import function_call_verifier
from tests.verifiers.submissions import submitted, verdict_of

FLIGHT = {"find_flight": {"origin": ["Oslo", "OSL"], "seats": [2], "class": ["economy", ""]}}
HOTEL = {"book_hotel": {"city": ["New York"], "nights": [3], "breakfast": [True], "tags": [["quiet", "sea view"], ""]}}
CALLS = [
    {"name": "find_flight", "arguments": {"origin": "Oslo", "seats": 2}},
    {"name": "book_hotel", "arguments": {"city": "new york", "nights": 3, "breakfast": True}},
]


def outcome(calls, expected=(FLIGHT, HOTEL), **rule):
    return verdict_of(
        function_call_verifier(**rule), submitted(json.dumps(calls), info={"expected_calls": list(expected)})
    ).outcome


def changed(place, **arguments):
    calls = [dict(call) for call in CALLS]
    calls[place] = {**calls[place], "arguments": {**calls[place]["arguments"], **arguments}}
    return calls


@pytest.mark.row("S459")
def test_equal_calls_pass_in_any_order():
    assert outcome(CALLS) == outcome(CALLS[::-1]) == 1.0
    assert outcome(CALLS, order="given") == 1.0
    assert outcome(CALLS[::-1], order="given") == 0.0


@pytest.mark.row("S459")
@pytest.mark.parametrize(
    "calls",
    [
        changed(0, origin="Bergen"),
        changed(0, seats=3),
        changed(0, seats="2"),
        changed(0, seats=2.0),
        changed(0, seats=True),
        changed(0, meal="none"),
        changed(0, **{"class": "first"}),
        changed(1, breakfast=1),
        changed(1, tags=["sea view", "quiet"]),
        changed(1, tags="quiet"),
        CALLS[:1],
        [*CALLS, CALLS[0]],
        [CALLS[0], CALLS[0]],
        [{**CALLS[0], "name": "find_hotel"}, CALLS[1]],
        [{"name": "find_flight", "arguments": {"seats": 2}}, CALLS[1]],
        [],
    ],
)
def test_a_wrong_missing_or_additional_argument_or_call_fails(calls):
    assert outcome(calls) == 0.0


def test_accepted_values_optional_arguments_and_loose_text_pass():
    assert outcome(changed(0, origin="osl", **{"class": "Economy"})) == 1.0
    assert outcome(changed(1, tags=["quiet", "sea-view"])) == 1.0


def test_a_whole_number_passes_for_a_fraction():
    assert outcome([{"name": "f", "arguments": {"x": 2}}], expected=[{"f": {"x": [2.0]}}]) == 1.0


def test_calls_are_matched_as_a_whole_and_not_one_after_the_other():
    expected = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]
    assert (
        outcome([{"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {"x": 2}}], expected=expected) == 1.0
    )


def test_no_call_is_right_where_none_is_expected():
    assert outcome([], expected=[]) == 1.0
    assert outcome(CALLS[:1], expected=[]) == 0.0


def test_tagged_calls_and_the_log_of_the_tool_environment_are_read_alike():
    tagged = "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in CALLS)
    info = {"expected_calls": [FLIGHT, HOTEL]}
    verifier = function_call_verifier()
    assert verdict_of(verifier, submitted(f"I look.\n{tagged}", info=info)).outcome == 1.0
    log = [{"tool": c["name"], "arguments": json.dumps(c["arguments"]), "status": "ok"} for c in CALLS]
    text = submitted("done", info=info)
    logged = Submission(
        trajectory_id=text.trajectory_id,
        task=text.task,
        terminal_reason=text.terminal_reason,
        passages=text.passages,
        artifacts={"tool_calls.json": json.dumps(log).encode()},
    )
    assert verdict_of(verifier, logged).outcome == 1.0


@pytest.mark.parametrize(
    "text",
    ["[", "[1]", '[{"name": "f"}]', '[{"name": 1, "arguments": {}}]', "<tool_call>{</tool_call>", "[" * 100_000, ""],
)
def test_what_cannot_be_read_as_calls_earns_nothing(text):
    info = {"expected_calls": [FLIGHT, HOTEL]}
    assert verdict_of(function_call_verifier(), submitted(text, info=info)).outcome == 0.0


def test_every_call_at_once_earns_nothing():
    flood = [{"name": "find_flight", "arguments": {"origin": "Oslo", "seats": n}} for n in range(5000)]
    assert outcome([*flood, *CALLS]) == 0.0


def test_an_expectation_that_cannot_be_read_is_an_error_and_no_number():
    for wrong in (None, "f", [{"f": {"x": 1}}], [{"f": {"x": []}}], [{"f": {}, "g": {}}]):
        verdict = verdict_of(function_call_verifier(), submitted("[]", info={"expected_calls": wrong}))
        assert verdict.outcome == "grader_error"


def test_calls_that_are_begun_and_never_ended_are_read_in_time():
    expected = {"expected_calls": []}
    verdict = verdict_of(function_call_verifier(), submitted("<tool_call>" * 100_000, info=expected))
    assert verdict.outcome == 1.0
