"""Exact and numeric answers, form and tool use: gold, near miss, attack."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import Passage
from rollwright.verifiers import (
    AnswerRule,
    Normalization,
    NormalizationStep,
    NumberForm,
    NumericRule,
    VerifierSetupError,
    agree,
    exact_verifier,
    format_verifier,
    numeric_verifier,
    read_gold_number,
    read_number,
    tool_use_verifier,
)
from tests.cases import case
from tests.verifiers.submissions import submitted, verdict_of

RULE = AnswerRule()
EXACT = exact_verifier(RULE)
NUMERIC = numeric_verifier(RULE)


@pytest.mark.parametrize("verifier", [EXACT, NUMERIC], ids=["exact", "numeric"])
@pytest.mark.parametrize(
    ("text", "value", "finding"),
    [
        ("answer: 42", 1.0, None),
        ("  answer:  42 ", 1.0, None),
        ("answer: 43", 0.0, None),
        ("answer: 420", 0.0, None),
        ("answer: -42", 0.0, None),
        ("", 0.0, "no_answer"),
        ("answer:", 0.0, "no_answer"),
        ("I think it is 42", 0.0, "no_answer"),
        ("answer: 42\nanswer: 41", 0.0, None),
    ],
)
def test_gold_near_misses_and_empty_answers(verifier, text: str, value: float, finding: str | None) -> None:
    verdict = verdict_of(verifier, submitted(text))
    assert (verdict.outcome, verdict.finding) == (value, finding)
    assert verdict.scope == "trajectory"
    assert verdict.revision == verifier.revision


@pytest.mark.parametrize(
    "attack",
    [
        "answer: 6*7",  # The question given back.
        "answer: 84/2",
        "answer: 42 or 43",
        "answer: 1 2 3 42",
        "answer: 41=42",
        "answer: 42 undefined",
        "answer: nan",
        "answer: inf",
        "answer: 4_2",
        "answer: ４２４",
        "answer: 0x2a",
        "answer: answer: 42",
        "answer: \\boxed{42}",
        "answer: " + "4" * 10_000,
        "answer: 9**9**9**9",
        "answer: 1e999999999",
    ],
)
def test_no_attack_on_a_number_is_paid(attack: str) -> None:
    assert verdict_of(NUMERIC, submitted(attack, question="What is 6*7?")).outcome == 0.0
    assert verdict_of(EXACT, submitted(attack, question="What is 6*7?")).outcome == 0.0


def test_a_word_stands_where_there_is_no_number() -> None:
    assert verdict_of(NUMERIC, submitted("answer: undefined", "undefined")).outcome == 1.0
    assert verdict_of(NUMERIC, submitted("answer: Undefined.", "undefined")).outcome == 1.0
    assert verdict_of(NUMERIC, submitted("answer: undefined", "42")).outcome == 0.0
    assert verdict_of(NUMERIC, submitted("answer: 42", "undefined")).outcome == 0.0
    assert verdict_of(NUMERIC, submitted("answer: not undefined", "undefined")).outcome == 0.0


@pytest.mark.parametrize("verifier", [EXACT, NUMERIC], ids=["exact", "numeric"])
@pytest.mark.case("F67")
def test_an_empty_answer_is_wrong_and_an_empty_gold_is_no_score(verifier) -> None:
    example = case("F67")
    expected = [0.0 if reward == 0.0 else "grader_error" for reward in example.expect["reward"][:3]]
    found = [verdict_of(verifier, submitted(f"answer: {given}", gold)) for gold, given in example.input["pairs"][:3]]
    assert [v.outcome for v in found] == expected
    assert "bad gold of task s/0" in found[1].evidence
    # The stated policy for a gold answer that does not parse: exact compares text, numeric gives no score.
    gold, given = example.input["pairs"][3]
    assert verdict_of(verifier, submitted(f"answer: {given}", gold)).outcome == (
        1.0 if verifier is EXACT else "grader_error"
    )


@pytest.mark.case("F66")
def test_exact_forms_compare_exactly_and_decimals_relatively() -> None:
    example = case("F66")
    verifier = numeric_verifier(RULE, NumericRule(tolerance=1e-6, form="closed"))
    for (gold, written), correct in zip(example.input["pairs"], example.expect["correct"], strict=True):
        assert verdict_of(verifier, submitted(f"answer: {written}", gold)).outcome == float(correct), (gold, written)
        one, two = read_gold_number(gold), read_gold_number(written)
        assert one is not None
        assert two is not None
        assert agree(one, two, 1e-6) is agree(two, one, 1e-6) is correct


def test_a_task_may_state_its_own_tolerance() -> None:
    loose = submitted("answer: 3.1", "3.14", info={"tolerance": 0.02})
    assert verdict_of(NUMERIC, loose).outcome == 1.0
    assert verdict_of(NUMERIC, submitted("answer: 3.1", "3.14")).outcome == 0.0
    assert verdict_of(NUMERIC, submitted("answer: 3.140", "3.14")).outcome == 1.0


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("42", NumberForm.LITERAL, Fraction(42)),
        ("+42", NumberForm.LITERAL, Fraction(42)),
        ("\N{MINUS SIGN}42", NumberForm.LITERAL, Fraction(-42)),
        ("$42$", NumberForm.LITERAL, Fraction(42)),
        ("42.", NumberForm.LITERAL, Fraction(42)),
        ("1,234,567", NumberForm.LITERAL, Fraction(1234567)),
        ("12,34", NumberForm.LITERAL, None),
        (".5", NumberForm.LITERAL, Fraction(1, 2)),
        ("1.5e-3", NumberForm.LITERAL, Fraction(3, 2000)),
        ("1/2", NumberForm.LITERAL, None),
        ("1/2", NumberForm.FRACTION, Fraction(1, 2)),
        ("-1/2", NumberForm.FRACTION, Fraction(-1, 2)),
        ("\\frac{1}{2}", NumberForm.FRACTION, Fraction(1, 2)),
        ("-\\dfrac{3}{4}", NumberForm.FRACTION, Fraction(-3, 4)),
        ("1/0", NumberForm.FRACTION, None),
        ("1/2/3", NumberForm.FRACTION, None),
        ("2^10", NumberForm.FRACTION, None),
        ("2^10", NumberForm.CLOSED, Fraction(1024)),
        ("2^{-1}", NumberForm.CLOSED, Fraction(1, 2)),
        ("5!", NumberForm.CLOSED, Fraction(120)),
        ("99999!", NumberForm.CLOSED, None),
        ("9^99999999", NumberForm.CLOSED, None),
        ("0^-1", NumberForm.CLOSED, None),
        ("2+2", NumberForm.CLOSED, None),
        ("2*2", NumberForm.CLOSED, None),
        ("(2)", NumberForm.CLOSED, None),
        ("", NumberForm.CLOSED, None),
    ],
)
def test_numbers_are_read_in_the_allowed_forms_only(text: str, form: NumberForm, value: Fraction | None) -> None:
    number = read_number(text, form)
    assert (number.value if number else None) == value


@given(st.text(max_size=30), st.sampled_from(list(NumberForm)))
def test_any_text_is_a_number_or_none(text: str, form: NumberForm) -> None:
    number, gold = read_number(text, form), read_gold_number(text)
    assert number is None or isinstance(number.value, Fraction)
    # A gold number takes every form: what one form reads as a number is the same number as gold.
    assert number is None or number == gold


@given(st.integers(-(10**30), 10**30))
def test_an_integer_agrees_with_itself_and_with_no_neighbour(value: int) -> None:
    assert verdict_of(NUMERIC, submitted(f"answer: {value}", str(value))).outcome == 1.0
    assert verdict_of(NUMERIC, submitted(f"answer: {value:,}", str(value))).outcome == 1.0
    assert verdict_of(NUMERIC, submitted(f"answer: {value + 1}", str(value))).outcome == 0.0


def test_a_tolerance_under_which_everything_agrees_is_refused() -> None:
    for tolerance in (-0.1, 1.0, float("nan")):
        with pytest.raises(VerifierSetupError, match="tolerance"):
            NumericRule(tolerance=tolerance)


# ------------------------------------------------------------------------------------------------------- text and form


@pytest.mark.row("S381")
def test_the_declared_normalization_decides_what_is_the_same_and_is_versioned() -> None:
    table: list[tuple[tuple[NormalizationStep, ...], str, str]] = [
        (("case",), "Paris", "PARIS"),
        (("articles", "whitespace"), "the Seine", "Seine"),
        (("punctuation",), "St. Denis!", "St Denis"),
        (("whitespace",), "Rue  de\tRivoli", "Rue de Rivoli"),
        (("unicode",), "\uff14\uff12", "42"),
    ]
    untouched = exact_verifier(RULE, Normalization(steps=()))
    for steps, written, gold in table:
        submission = submitted(f"answer: {written}", gold)
        assert verdict_of(exact_verifier(RULE, Normalization(steps=steps)), submission).outcome == 1.0
        assert verdict_of(untouched, submission).outcome == 0.0
    every = Normalization(steps=("unicode", "case", "punctuation", "articles", "whitespace"))
    assert verdict_of(exact_verifier(RULE, every), submitted("answer: The  'Seine'.", "seine")).outcome == 1.0
    assert verdict_of(exact_verifier(RULE, every), submitted("answer: the Loire", "seine")).outcome == 0.0
    assert len({exact_verifier(RULE, Normalization(steps=steps)).revision for steps, _, _ in table}) == len(table)


def test_a_gold_of_which_normalization_leaves_nothing_is_bad_data() -> None:
    bare = exact_verifier(RULE, Normalization(steps=("punctuation", "articles", "whitespace")))
    assert verdict_of(bare, submitted("answer: the", "the!")).outcome == "grader_error"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("answer: 42", 1.0),
        ("answer: a wrong one", 1.0),
        ("answer: 1\nanswer: 1", 0.0),
        ("answer:", 0.0),
        ("42", 0.0),
        ("", 0.0),
    ],
)
def test_form_is_one_answer_as_asked(text: str, value: float) -> None:
    assert verdict_of(format_verifier(RULE), submitted(text)).outcome == value


def test_form_is_not_kept_where_the_reasoning_never_ended() -> None:
    rule = AnswerRule(reasoning="opened_by_prompt")
    verdict = verdict_of(format_verifier(rule), submitted("answer: 42"))
    assert (verdict.outcome, verdict.finding) == (0.0, "no_answer")


def test_calls_are_counted_and_failed_ones_apart() -> None:
    passages = (
        Passage(actor="agent", kind="policy", text="error: not a result"),
        Passage(actor="agent", kind="tool", text="7"),
        Passage(actor="agent", kind="tool", text="error: division by zero"),
        Passage(actor="agent", kind="policy", text="answer: 7"),
    )
    verdict = verdict_of(tool_use_verifier(), submitted(passages))
    assert verdict.outcome == 2.0
    assert {c.name: c.value for c in verdict.components} == {"calls": 2, "failed_calls": 1}
    assert verdict_of(tool_use_verifier(), submitted("answer: 7")).outcome == 0.0
