"""Marks are read from the source of tests, and only from tests that can fail."""

from pathlib import Path
from textwrap import dedent

import pytest

from tools.markers import MarkError, find_marked_tests


def marked(root: Path, source: str) -> dict[str, tuple[str, ...]]:
    folder = root / "tests" / "room"
    folder.mkdir(parents=True)
    (folder / "test_module.py").write_text(dedent(source), encoding="utf-8")
    return {
        test.node_id.removeprefix("tests/room/test_module.py::"): test.ids for test in find_marked_tests(root, "row")
    }


def test_a_mark_counts_on_a_test_a_class_and_a_parameter(tmp_path):
    found = marked(
        tmp_path,
        """
        @pytest.mark.row("S001", "S002")
        def test_plain(): ...

        @pytest.mark.row("S003")
        class TestMany:
            @pytest.mark.row("S004")
            async def test_one(self): ...

        @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row("S005"))])
        def test_parameters(x): ...

        def test_without(): ...
        """,
    )
    assert found == {
        "test_plain": ("S001", "S002"),
        "TestMany::test_one": ("S004", "S003"),
        "test_parameters": ("S005",),
    }


def test_a_table_counts_for_the_tests_that_are_parametrized_with_it(tmp_path):
    found = marked(
        tmp_path,
        """
        BATTERY = [pytest.param(1, marks=pytest.mark.row("S001")), pytest.param(2, marks=pytest.mark.row("S002"))]

        @pytest.mark.parametrize("x", BATTERY)
        def test_battery(x): ...

        def test_other(): ...
        """,
    )
    assert found == {"test_battery": ("S001", "S002")}


def test_the_mark_of_a_module_counts_for_all_its_tests(tmp_path):
    source = """
        pytestmark = pytest.mark.row("S001")
        def test_a(): ...
        def test_b(): ...
        """
    assert marked(tmp_path, source) == {"test_a": ("S001",), "test_b": ("S001",)}


@pytest.mark.parametrize(
    "void", ["pytest.mark.skip", 'pytest.mark.skip(reason="later")', "pytest.mark.xfail(strict=True)"]
)
def test_a_test_that_cannot_fail_demonstrates_nothing(tmp_path, void):
    assert marked(tmp_path, f'@{void}\n@pytest.mark.row("S001")\ndef test_a(): ...\n') == {}


def test_an_id_that_is_no_plain_string_is_refused(tmp_path):
    with pytest.raises(MarkError, match="plain strings"):
        marked(tmp_path, '@pytest.mark.row(f"S{1:03}")\ndef test_a(): ...\n')


def test_a_table_that_no_test_uses_is_refused(tmp_path):
    with pytest.raises(MarkError, match="TABLE"):
        marked(tmp_path, 'TABLE = [pytest.param(1, marks=pytest.mark.row("S001"))]\ndef test_a(): ...\n')
