"""Units, sets, choices and free answers: gold, near miss, attack."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.verifiers import (
    AnswerRule,
    SetRule,
    UnitsRule,
    VerifierSetupError,
    choice_verifier,
    exact_verifier,
    numeric_verifier,
    read_answer,
    read_quantity,
    set_verifier,
    units_verifier,
)
from tests.verifiers.submissions import submitted, verdict_of

RULE = AnswerRule()
FREE = AnswerRule(form="free", reasoning="opened_in_output")
UNITS = units_verifier(RULE)
SET = set_verifier(RULE)
CHOICE = choice_verifier(RULE)
QUESTION = "Which?\nA) a cat\nB) a dog\nC) no animal\nD) both"


def outcome(verifier, answer: str, gold: str, **more) -> float | str:
    return verdict_of(verifier, submitted(f"answer: {answer}", gold, **more)).outcome


# ------------------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("5 cm", "5 cm", 1.0),
        ("5 cm", "50 mm", 1.0),
        ("5 cm", "0.05 m", 1.0),
        ("5 cm", "5\\text{ cm}", 1.0),
        ("5 cm", "$5\\,\\mathrm{cm}$", 1.0),
        ("5 cm", "5 centimeters", 1.0),
        ("5 cm", "5", 0.0),
        ("5 cm", "5 m", 0.0),
        ("5 cm", "5 cm^2", 0.0),
        ("5", "5 cm", 0.0),
        ("5", "5", 1.0),
        ("36 km/h", "10 m/s", 1.0),
        ("36 km/h", "10 m s^{-1}", 1.0),
        ("36 km/h", "10 m*s^-1", 1.0),
        ("36 km/h", "36 kph", 1.0),
        ("36 km/h", "36 km h", 0.0),
        ("2 J/(kg K)", "2 J kg^-1 K^-1", 1.0),
        ("2 J/(kg K)", "2 J/kg K", 0.0),
        ("3.0e8 m/s", "3 \\times 10^8 m/s", 1.0),
        ("3.0e8 m/s", "3 \\times 10^9 m/s", 0.0),
        ("1 N", "1 kg m/s^2", 1.0),
        ("1 N", "1 kg m/s", 0.0),
        ("20 °C", "293.15 K", 1.0),
        ("20 °C", "20 K", 0.0),
        ("20 °C", "68 °F", 1.0),
        ("20^\\circ\\text{C}", "20 °C", 1.0),
        ("30^\\circ", "30 degrees", 1.0),
        ("30^\\circ", "30", 0.0),
        ("50%", "50 percent", 1.0),
        ("50\\%", "50 %", 1.0),
        ("50%", "0.5", 0.0),
        ("50%", "50", 0.0),
        ("$5", "5 dollars", 1.0),
        ("$5", "500 cents", 1.0),
        ("$5", "5", 0.0),
        ("$5", "5 euros", 0.0),
        ("2 h", "120 min", 1.0),
        ("2 h", "7200 s", 1.0),
        ("1 mile", "1609.344 m", 1.0),
        ("5 apples", "5 apples", 1.0),
        ("5 apples", "5 pears", 0.0),
        ("5 apples", "5", 0.0),
        ("\\frac{1}{2} L", "500 mL", 1.0),
        ("1/2 L", "500 ml", 1.0),
        ("10 µm", "10 um", 1.0),
        ("1 mm", "1 Mm", 0.0),
        ("8 bits", "1 byte", 1.0),
    ],
)
def test_equivalent_units_count_and_dropped_or_changed_ones_do_not(gold: str, answer: str, value: float) -> None:
    assert outcome(UNITS, answer, gold) == value
    assert outcome(UNITS, gold, gold) == 1.0


@pytest.mark.parametrize(
    "attack",
    ["5 or 6 cm", "5 cm 6 cm", "5 cm, 6 cm", "1..9 cm", "about 5 cm", "5 cm or so", "cm", "5 сm", "five cm", "5 cm/",
     "/5 cm", "5 (cm", "2+3 cm", "9e999 cm", "9" * 1_000_000 + " cm", "5 " + "(" * 5000, "5 " + "m " * 90,
     "5 cm^9999999", "5 c\u200bm"],
)  # fmt: skip
def test_no_attack_on_an_amount_is_paid(attack: str) -> None:
    assert outcome(UNITS, attack, "5 cm") == 0.0


def test_the_tolerance_of_amounts_is_relative_and_declared() -> None:
    assert outcome(UNITS, "27.8 m/s", "100 km/h") == 0.0
    assert outcome(units_verifier(RULE, UnitsRule(tolerance=0.01)), "27.8 m/s", "100 km/h") == 1.0
    assert outcome(UNITS, "27.8 m/s", "100 km/h", info={"tolerance": 0.01}) == 1.0
    assert UNITS.revision != units_verifier(RULE, UnitsRule(tolerance=0.01)).revision
    with pytest.raises(VerifierSetupError, match="tolerance"):
        UnitsRule(tolerance=1.0)


def test_a_gold_amount_that_is_none_gives_no_score() -> None:
    assert outcome(UNITS, "5 cm", "five cm") == "grader_error"


@settings(max_examples=25)
@given(st.integers(1, 10**6), st.sampled_from(["cm", "kg", "km/h", "°C", "%", "N m"]))
def test_an_amount_equals_itself_and_no_neighbor(number: int, unit: str) -> None:
    assert outcome(UNITS, f"{number} {unit}", f"{number} {unit}") == 1.0
    assert outcome(UNITS, f"{number + 1} {unit}", f"{number} {unit}") == 0.0
    assert outcome(UNITS, str(number), f"{number} {unit}") == 0.0


@given(st.text(max_size=40))
def test_any_text_is_an_amount_or_none(text: str) -> None:
    quantity = read_quantity(text)
    assert quantity is None or isinstance(quantity.number.value, Fraction)


# -------------------------------------------------------------------------------------------------------------- sets


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("1, 2, 3", "3, 1, 2", 1.0),
        ("1, 2, 3", "{3, 2, 1}", 1.0),
        ("1, 2, 3", "[3, 2, 1]", 1.0),
        ("1, 2, 3", "\\{1, 2, 3\\}", 1.0),
        ("1, 2, 3", "1; 2; 3", 1.0),
        ("1, 2, 3", "1, 2", 0.0),
        ("1, 2, 3", "1, 2, 3, 4", 0.0),
        ("1, 2, 3", "1, 2, 2, 3", 1.0),
        ("1/2, 1/3", "0.5, 1/3", 1.0),
        ("red, Green", "green, red", 1.0),
        ("red, green", "red green", 0.0),
        ("(1,2), (3,4)", "(3,4), (1,2)", 1.0),
        ("(1,2), (3,4)", "(2,1), (3,4)", 0.0),
        ('["a", "b"]', '["b", "a"]', 1.0),
    ],
)
def test_a_set_is_all_of_its_items_and_no_other(gold: str, answer: str, value: float) -> None:
    assert outcome(SET, answer, gold) == value


def test_order_and_repetitions_count_as_declared() -> None:
    counted = set_verifier(RULE, SetRule(duplicates="counted"))
    ordered = set_verifier(RULE, SetRule(order="kept", duplicates="counted"))
    assert [outcome(counted, answer, "1, 1, 2") for answer in ("1, 2", "2, 1, 1")] == [0.0, 1.0]
    assert [outcome(ordered, answer, "1, 1, 2") for answer in ("1, 1, 2", "2, 1, 1")] == [1.0, 0.0]
    assert len({SET.revision, counted.revision, ordered.revision}) == 3


@pytest.mark.parametrize(
    "attack",
    ["1, 2, 3, 4, 5, 6, 7, 8, 9", "1, 2, , 3", ",", "{}", "[]", "{1, 2, 3", "(" * 100_000, ",".join("1" * 20_000),
     "1,2,３", "[" * 5000 + "]" * 5000, "1 2 3", "all of them"],
)  # fmt: skip
def test_no_attack_on_a_set_is_paid(attack: str) -> None:
    assert outcome(SET, attack, "1, 2, 3") == 0.0


def test_items_of_the_task_stand_before_its_answer() -> None:
    assert outcome(SET, "x, y", "see items", info={"items": ["y", "x"]}) == 1.0
    assert outcome(SET, "see items", "see items", info={"items": ["y", "x"]}) == 0.0


@settings(max_examples=25)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_order_of_the_items_is_the_set_and_one_less_is_not(items: list[int], random) -> None:
    gold = ", ".join(map(str, items))
    shuffled = items[:]
    random.shuffle(shuffled)
    assert outcome(SET, ", ".join(map(str, shuffled)), gold) == 1.0
    fewer = [item for item in items if item != items[0]]
    assert outcome(SET, ", ".join(map(str, fewer)), gold) == 0.0


# ----------------------------------------------------------------------------------------------------------- choices


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("B", 1.0), ("b", 1.0), ("(B)", 1.0), ("B.", 1.0), ("**B**", 1.0), ("B) a dog", 1.0), ("a dog", 1.0),
        ("A dog.", 1.0), ("option B", 1.0), ("\\text{B}", 1.0), ("B) a cat", 0.0), ("A", 0.0), ("B and C", 0.0),
        ("A, B", 0.0), ("AB", 0.0), ("A B C D", 0.0), ("A) a cat B) a dog", 0.0), ("dog", 0.0), ("E", 0.0),
        ("not B", 0.0), ("\u0412", 0.0), ("Ｂ", 0.0), ("B" * 100_000, 0.0), ("B or so", 0.0), ("a cat or a dog", 0.0),
    ],
)  # fmt: skip
def test_one_option_is_named_by_letter_or_text_and_several_are_none(answer: str, value: float) -> None:
    assert outcome(CHOICE, answer, "B", question=QUESTION) == value


def test_options_come_from_the_task_or_its_question_and_a_gold_may_be_a_text() -> None:
    options = {"options": ["red", "green"]}
    assert outcome(CHOICE, "green", "B", info=options) == 1.0
    assert outcome(CHOICE, "B", "green", info=options) == 1.0
    assert outcome(CHOICE, "A", "green", info=options) == 0.0
    assert outcome(CHOICE, "C", "green", info=options) == 0.0
    assert outcome(CHOICE, "C", "blue", info=options) == "grader_error"
    assert outcome(CHOICE, "B", "B") == 1.0
    assert outcome(CHOICE, "red", "B", question="Which? (A) green (B) red") == 1.0


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("A) O", "A", 1.0),
        ("A) O", "O", 1.0),
        ("B) A", "B) A", 1.0),
        ("B) A", "B", 1.0),
        ("B) A", "C", 0.0),
        ("B) A", "A", 0.0),
        ("C", "B", 0.0),
        ("C", "C", 1.0),
        ("D", "AB", 1.0),
        ("B", "B", "grader_error"),
        ("B", "C", "grader_error"),
    ],
)
def test_a_letter_is_a_letter_also_where_it_is_the_text_of_another_option(gold: str, answer: str, value) -> None:
    assert outcome(CHOICE, answer, gold, question="Which group?\nA) O\nB) A\nC) B\nD) AB") == value


# ----------------------------------------------------------------------------------------------------- free answers


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        ("So \\boxed{42}.", "42"),
        ("The answer is 42.", "42."),
        ("**Answer:** 42", "42"),
        ("Final answer = 42", "42"),
        ("6*7 = 42\n#### 42", "42"),
        ("answer: 42\nSo \\boxed{42}", "42"),
        ("answer: 41\nSo \\boxed{42}", None),
        ("\\boxed{42} or \\boxed{41}", None),
        ("The answer is 41. The answer is 42", None),
        ("The answer is 42. The answer is 42", None),
        ("The answer is 42\nThe answer is 42.", "42."),
        ("Answer: \\boxed{42}", "42"),
        ("There is no doubt that the answer is 42", "42"),
        ("It cannot be 41, therefore the answer is 42", "42"),
        ("<think>answer: 41</think>42", "42"),
        ("<think>\\boxed{42}</think>I do not know", "I do not know"),
        ("<think>\\boxed{42}", None),
        ("", None),
        ("Paris\nFrance", "Paris\nFrance"),
    ],
)
def test_a_free_answer_is_what_all_places_agree_on(text: str, answer: str | None) -> None:
    assert read_answer(submitted(text), FREE).answer == answer


def test_a_text_that_a_limit_cut_off_is_no_free_answer() -> None:
    assert read_answer(submitted("42", reason="token_limit"), FREE).answer is None
    assert read_answer(submitted("answer: 42\nand", reason="token_limit"), FREE).answer == "42"


def test_words_around_a_number_are_not_passed_over() -> None:
    doubted = (
        "I do not think that the answer is 42",
        "I don't believe the answer is 42.",
        "It cannot be that the answer is 42",
        "Nobody knows whether the answer is 42",
        "It is false to say the answer is 42.",
        "It is unlikely that the final answer is 42",
    )
    for text in (*doubted, "It is not 42", "41 or 42", "The answer is 42 or 41", "42 41", "I will try 42, then 41"):
        assert verdict_of(numeric_verifier(FREE), submitted(text)).outcome == 0.0
        assert verdict_of(exact_verifier(FREE), submitted(text)).outcome == 0.0
