"""The line of a key is found however its TOML is laid out."""

import tomllib

import pytest

from rollwright.recipes.flat import flatten
from rollwright.recipes.lines import line_of, lines_of
from rollwright.recipes.resolve import preset_names, preset_text

TEXT = '''# a comment
top = 1
[run]
name = "x"  # name = "y"
labels."b.c" = "D"

[verifier]
parts = [
  { kind = "exact" },
  { kind = "format" },
]
text = """
name = 3
[stages]
"""
[[stages]]
kind = "rl"
[stages.inner]
z = 1
[[stages]]
kind = "s"
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("top", 2),
        ("run", 3),
        ("run.name", 4),
        ("run.labels", 5),
        ("verifier.parts", 8),
        ("verifier.parts.1.kind", 8),
        ("verifier.text", 12),
        ("stages.0", 16),
        ("stages.0.kind", 17),
        ("stages.0.inner.z", 19),
        ("stages.1.kind", 21),
        ("stages.1.unwritten", 20),
    ],
)
def test_a_key_lies_where_its_statement_begins(key, line):
    assert line_of(key, lines_of(TEXT)) == line


def test_what_is_not_written_has_no_line():
    assert line_of("elsewhere.key", lines_of(TEXT)) is None


@pytest.mark.parametrize("name", preset_names())
def test_every_key_of_a_preset_has_a_line_that_names_it(name):
    text = preset_text(name)
    written = text.splitlines()
    lines = lines_of(text)
    for key, _ in flatten(tomllib.loads(text)):
        parts = [part for part in key.split(".") if not part.isdigit()]
        line = line_of(key, lines)
        assert line is not None
        assert parts[-1] in written[line - 1] or parts[-2] in written[line - 1], key
