"""Hidden characters become visible words, and ordinary writing stays as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.viewer.page.text import clip, show_hidden


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred", "⟨U+001B⟩[31mred"),
        ("a\x00b\x7f", "a⟨U+0000⟩b⟨U+007F⟩"),
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("line\u2028end", "line⟨U+2028⟩end"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("two\nlines\tand\r", "two\nlines\tand⟨U+000D⟩"),
        ("Grüße, 日本語, 한국어, עברית, العربية, ½ × √2, 🙂", "Grüße, 日本語, 한국어, עברית, العربية, ½ × √2, 🙂"),
    ],
)
def test_what_is_hidden_is_named_and_what_is_writing_stays(given, shown):
    assert show_hidden(given) == shown


@given(st.text(st.characters()))
def test_no_control_or_format_character_is_left_in_any_text(text):
    left = {unicodedata.category(c) for c in show_hidden(text) if c not in "\n\t"}
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_showing_twice_changes_nothing(text):
    once = show_hidden(text)
    assert show_hidden(once) == once


def test_a_clipped_text_says_how_much_is_left_out():
    assert clip("abc", 3) == "abc"
    assert clip("x" * 1500, 100) == "x" * 100 + " … (1,400 more characters)"
