"""What counts as the expected output of a program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.verifiers import OutputRule, same_output
from tests.cases import case


@pytest.mark.case("F71")
def test_text_and_integers_are_exact_decimals_are_near_and_lines_are_kept() -> None:
    example = case("F71")
    found = [same_output(actual, expected) for actual, expected in example.input["pairs_actual_expected"]]
    assert found == example.expect["accepted"]


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("", "1"), ("1", ""), ("inf", "1e999"), ("1e999", "1e9999"), ("0x10", "16"), ("1_000", "1000"), ("１", "1"),
        ("1 1", "1"), ("1\n\n2", "1\n2"), ("9" * 1_000_000, "1"), ("nan", "1"), ("True", "1"), ("1\n2", "2\n1"),
        ("PASSED", "1"), ("1" + "0" * 5000, "1e5000"),
    ],
)  # fmt: skip
def test_another_output_is_refused(actual: str, expected: str) -> None:
    assert not same_output(actual, expected)


@given(st.text(max_size=60))
def test_every_output_is_itself_with_any_blanks_at_its_ends(text: str) -> None:
    assert same_output(f"{text}\n \n", text)
    assert not same_output(f"{text}\nand more", text)


@given(st.integers(-(10**40), 10**40))
def test_integers_of_any_length_differ_from_their_neighbors(number: int) -> None:
    assert same_output(f"{number}", f"{number}")
    assert not same_output(f"{number}", f"{number + 1}")


def test_the_tolerance_is_declared() -> None:
    assert not same_output("0.30001", "0.3")
    assert same_output("0.30001", "0.3", OutputRule(tolerance=1e-3))
