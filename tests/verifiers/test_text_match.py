"""Short answers: the SQuAD rule, several golds, and what does not pass for an answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.verifiers import SQUAD, TextMatchRule, VerifierSetupError, normalized, text_match_verifier, token_f1
from tests.verifiers.submissions import submitted, verdict_of

EXACT = text_match_verifier()
F1 = text_match_verifier(TextMatchRule(metric="f1"))
TAGGED = text_match_verifier(TextMatchRule(answer_tag="answer"))


def value(verifier, text, gold="Kelborough", **info):
    return verdict_of(verifier, submitted(text, gold, info=info)).outcome


@pytest.mark.row("S430", "S431", "S432")
@pytest.mark.parametrize(
    ("said", "exact", "f1"),
    [
        ("the Silver Tower!", 1.0, 1.0),
        ("SILVER  TOWER", 1.0, 1.0),
        ("silver", 0.0, 2 / 3),
        ("the silver tower of Kelborough", 0.0, 2 * 2 / (4 + 2)),
        ("Ivory Garden", 0.0, 0.0),
    ],
)
def test_exact_match_and_f1_follow_the_squad_rule(said, exact, f1):
    assert value(EXACT, f"answer: {said}", "Silver Tower") == exact
    assert value(F1, f"answer: {said}", "Silver Tower") == pytest.approx(f1)


def test_any_of_several_right_answers_counts():
    for answer in ("Draunor", "river draunor"):
        assert value(EXACT, f"answer: {answer}", answers=["Draunor", "River Draunor"]) == 1.0
    assert value(EXACT, "answer: Kelborough", answers=["Draunor"]) == 0.0


def test_yes_and_no_are_never_right_in_part():
    assert value(F1, "answer: no, they were not", "no") == 0.0
    assert value(F1, "answer: No.", "no") == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "answer: Kelborough, Holamont, Keloven",
        "answer: Kelborough or Holamont",
        "Kelborough",
        "answer:",
        "answer: In which town was Mira Tolven born? Kelborough?",
        "answer: Kelborough\nanswer: Holamont",
        "answer: " + "Kelborough " * 500,
    ],
)
def test_lists_echoes_and_empty_answers_are_no_exact_match(text):
    assert value(EXACT, text) == 0.0


def test_a_dump_of_all_passages_is_no_answer_even_for_f1():
    verdict = verdict_of(F1, submitted("answer: " + "Kelborough is a town. " * 200, "Kelborough"))
    assert (verdict.outcome, verdict.finding) == (0.0, "answer_too_long")


def test_a_tagged_answer_is_read_from_the_last_closed_tag():
    assert value(TAGGED, "I think <answer> Holamont </answer> no, <answer> Kelborough </answer>") == 1.0
    assert value(TAGGED, "<answer> Kelborough") == 0.0
    assert value(TAGGED, "answer: Kelborough") == 0.0
    with pytest.raises(VerifierSetupError, match="answer_tag"):
        TextMatchRule(answer_tag="a>b")


def test_bad_gold_is_an_error_and_no_number():
    for info in ({"answers": []}, {"answers": "Kelborough"}, {"answers": [1]}, {"answers": ["the", "!"]}):
        assert verdict_of(EXACT, submitted("answer: Kelborough", info=info)).outcome == "grader_error"


def test_the_rule_is_part_of_the_revision():
    others = [TextMatchRule(metric="f1"), TextMatchRule(answer_tag="answer")]
    assert len({EXACT.revision, *(text_match_verifier(rule).revision for rule in others)}) == 3


words = st.lists(st.sampled_from(["red", "blue", "tower", "kelborough", "1842"]), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(words, words)
def test_f1_is_symmetric_bounded_and_1_for_the_same_words(one, two):
    assert token_f1(one, two) == token_f1(two, one)
    assert 0.0 <= token_f1(one, two) <= 1.0
    assert token_f1(one, one) == 1.0
    assert normalized(normalized(one, SQUAD), SQUAD) == normalized(one, SQUAD)


def test_tags_that_are_never_ended_are_read_in_time():
    assert verdict_of(TAGGED, submitted(f"<answer>42</answer>{'<answer>' * 125_000}", "42")).outcome == 1.0
