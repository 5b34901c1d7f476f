"""What a model, a tool or a file name says stands in a report as text, and as nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.viewer.report.escaping import cell_text, html_text, markdown_text, visible

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "![x](http://example.invalid/x.png)",
    "[click](javascript:alert(1))",
    "<!-- --> <b>",
    "a | b || c",
    "`code` ~~~ ```",
    "# heading",
    "- item",
    "1. item",
    "https://example.invalid www.example.invalid",
    "$\\frac{1}{0}$",
    "line\none\r\ntwo",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_markup_survives_in_html(text):
    shown = html_text(text)
    assert not set('<>"\n') & set(shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_mark_of_markdown_stands_unescaped(text):
    shown = markdown_text(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`<>\[\]|#~$!]", shown)
    assert not re.match(r"[-+=]|\d+[.)]", shown)
    assert not re.search(r"(?<!\\)://|(?<!\\)www\.", shown)


@given(st.text())
def test_any_text_is_one_line_of_visible_characters(text):
    shown = visible(text)
    assert "\n" not in shown and "\r" not in shown
    assert not any(ord(character) < 32 for character in shown)
    shown.encode("utf-8")


def test_characters_that_turn_or_hide_text_are_seen():
    assert visible("a\u202eb\u200bc\x00") == "a\\u202eb\\u200bc\\u0000"


def test_names_in_any_script_stay_as_they_are():
    for name in ("計算機", "حاسبة", "калькулятор", "गणक", "👩‍🔬"):
        assert visible(name) == name and markdown_text(name) == name and html_text(name) == name


def test_undefined_is_a_dash_and_never_a_zero():
    assert (
        cell_text(None) == "–" and cell_text(0) == "0" and cell_text(0.0) == "0" and cell_text(1234567) == "1,234,567"
    )
