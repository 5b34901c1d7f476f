"""Where the graded text begins, and which answer in it counts."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import Passage
from rollwright.verifiers import (
    AnswerRule,
    VerifierSetupError,
    after_reasoning,
    boxed,
    exact_verifier,
    final_text,
    read_answer,
)
from tests.cases import case
from tests.verifiers.submissions import submitted, verdict_of

MARKER = AnswerRule()
BOXED = AnswerRule(form="boxed")
ONLY = AnswerRule(several="only")
MODES = {
    "open in prompt": AnswerRule(reasoning="opened_by_prompt"),
    "open in output": AnswerRule(reasoning="opened_in_output"),
    "no reasoning expected": AnswerRule(),
}


@pytest.mark.case("F62")
def test_boxed_answers_are_balanced_complete_and_never_the_whole_text() -> None:
    example = case("F62")
    extracted = [(boxed(text) or ("none",))[-1] for text in example.input["texts"]]
    assert extracted == example.expect["extracted"]
    for text, wanted in zip(example.input["texts"], extracted, strict=True):
        reading = read_answer(submitted(text), BOXED)
        assert reading.answer == (None if wanted == "none" else wanted)


@pytest.mark.case("F129")
def test_the_graded_text_is_what_follows_the_reasoning() -> None:
    example = case("F129")
    graded = [after_reasoning(text, MODES[mode]) for text, mode in example.input["rows_completion_mode"]]
    assert [g.text for g in graded] == example.expect["graded_text"]
    assert [g.is_cut for g in graded] == [False, False, True, True, False, False, False]
    first, mode = example.input["rows_completion_mode"][0]
    rule = AnswerRule(reasoning=MODES[mode].reasoning, marker="The answer is")
    assert verdict_of(exact_verifier(rule), submitted(first, "7")).outcome == 0.0
    assert verdict_of(exact_verifier(rule), submitted(first, "8")).outcome == 1.0


def test_reasoning_that_is_opened_again_and_not_closed_leaves_nothing_to_grade() -> None:
    assert after_reasoning("<think>a</think>8<think>b", MODES["open in output"]).is_cut
    assert after_reasoning("8", MODES["open in output"]).text == "8"


@given(st.text(max_size=40), st.text(max_size=40).filter(lambda t: "<think>" not in t and "</think>" not in t))
def test_no_answer_in_reasoning_is_ever_graded(thought: str, said: str) -> None:
    graded = after_reasoning(f"<think>{thought}</think>{said}", MODES["open in output"])
    assert graded.text == said.strip()


@pytest.mark.parametrize(
    ("text", "answer", "num_answers"),
    [
        ("answer: 42", "42", 1),
        ("Answer:42", "42", 1),
        ("So it is.\n  ANSWER:   42  \n", "42", 1),
        ("answer: 1\nanswer: 2", "2", 2),
        ("the answer: 42", None, 0),
        ("42", None, 0),
        ("", None, 0),
        ("answer:", "", 1),
        ("answer: answer: 42", "answer: 42", 1),
    ],
)
def test_the_last_marked_line_counts(text: str, answer: str | None, num_answers: int) -> None:
    reading = read_answer(submitted(text), MARKER)
    assert (reading.answer, reading.num_answers) == (answer, num_answers)


def test_under_the_rule_only_different_answers_are_none() -> None:
    assert read_answer(submitted("answer: 1\nanswer: 2"), ONLY).answer is None
    assert read_answer(submitted("answer: 2\nanswer: 2"), ONLY).answer == "2"


def passage(kind: Literal["policy", "reasoning", "tool", "environment"], text: str) -> Passage:
    return Passage(actor="agent", kind=kind, text=text)


def test_only_what_follows_the_last_word_of_the_world_is_graded() -> None:
    asked = passage("environment", "q?")
    early = (asked, passage("policy", "answer: 42"), passage("tool", "7"))
    assert read_answer(submitted(early), MARKER).answer is None
    assert read_answer(submitted((*early, passage("policy", "answer: 7"))), MARKER).answer == "7"
    assert final_text(submitted(early), MARKER).text == ""


def test_an_answer_in_a_tool_result_or_in_reasoning_never_counts() -> None:
    assert (
        read_answer(submitted((passage("policy", "let me see"), passage("tool", "answer: 42"))), MARKER).answer is None
    )
    thought = (passage("reasoning", "answer: 42"), passage("policy", "I do not know."))
    assert read_answer(submitted(thought), MARKER).answer is None
    assert read_answer(submitted((passage("reasoning", "\\boxed{42}"),)), BOXED).answer is None


def test_a_turn_in_several_pieces_is_read_as_one() -> None:
    pieces = (passage("policy", "answ"), passage("policy", "er: 4"), passage("policy", "2"))
    assert read_answer(submitted(pieces), MARKER).answer == "42"


@pytest.mark.parametrize("reason", ["token_limit", "context_limit", "wall_clock_limit", "turn_limit"])
def test_a_line_that_a_limit_cut_off_holds_no_answer(reason: str) -> None:
    assert read_answer(submitted("answer: 42", reason=reason), MARKER).answer is None
    assert read_answer(submitted("answer: 42\nand then", reason=reason), MARKER).answer == "42"
    assert read_answer(submitted("\\boxed{42} and", reason=reason), BOXED).answer == "42"


def test_an_empty_marker_is_refused() -> None:
    with pytest.raises(VerifierSetupError, match="marker is empty"):
        AnswerRule(marker=" ")


def test_every_part_of_the_rule_changes_the_revision() -> None:
    rules = [
        MARKER, BOXED, ONLY, AnswerRule(marker="=>"), AnswerRule(reasoning="opened_by_prompt"),
        AnswerRule(opening="<t>"), AnswerRule(closing="</t>"),
    ]  # fmt: skip
    assert len({exact_verifier(rule).revision for rule in rules}) == len(rules)


FREE = AnswerRule(form="free")


def test_tags_that_are_begun_and_never_ended_take_no_time_that_grows_with_their_square() -> None:
    text = "<answer>" * 125_000  # Minutes and more, where each is followed to the end of the text.
    assert read_answer(submitted(text), FREE).answer == text
    assert read_answer(submitted(f"<answer>7</ANSWER> {text}"), FREE).answer == "7"


@pytest.mark.parametrize("form", ["boxed", "free"])
@pytest.mark.parametrize("several", ["last", "only"])
def test_boxes_in_boxes_are_read_without_cutting_each_of_them_out(form, several) -> None:
    """All that 100,000 of them hold is 40 GB."""
    depth = 100_000
    text = "\\boxed{" * depth + "4" + "}" * depth
    reading = read_answer(submitted(text), AnswerRule(form=form, several=several))
    # In the free form the second from within holds one box alone, and counts as that one.
    assert reading.num_answers == (depth if form == "boxed" else depth - 1)
    assert reading.answer == ("4" if (form, several) == ("boxed", "last") else None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{\boxed{4}}", "4"),
        (r"\boxed{ \fbox {4} }", "4"),
        (r"\boxed{\boxed{\boxed{4}}}", None),
        (r"\boxed{\boxed{4}.}", None),
        (r"\boxed{4} and \boxed{\boxed{4}}", "4"),
        (r"\boxed{4} and <answer>5</answer>", None),
    ],
)
def test_a_box_that_wraps_one_box_is_no_answer_of_its_own(text: str, answer: str | None) -> None:
    assert read_answer(submitted(text), AnswerRule(form="free")).answer == answer
