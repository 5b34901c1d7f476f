"""What is to run on a GPU runs on a CPU too, small; and what fails is a row with its reason."""

import pytest
import torch

from benchmarks.on_gpu.__main__ import OWN, go, part_of, read_arguments
from benchmarks.on_gpu.parts import PARTS
from benchmarks.on_gpu.place import SMALL, Place
from benchmarks.report import Row

HERE = Place(device="cpu", dtype="float32", sizes=SMALL)


def rows_of(name: str) -> list[Row]:
    return PARTS[name](HERE)


def test_attention_and_its_gradients_are_the_dense_ones():
    rows = rows_of("attention")
    assert [row.is_met for row in rows] == [True, True, None]
    assert rows[-1].ratio is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["agreement", "gradient", "rates"])
def test_the_other_parts_come_to_their_figures(name):
    rows = rows_of(name)
    assert not any(row.has_failed for row in rows)
    assert all(row.is_met is not False for row in rows)


def test_the_parts_are_those_that_can_be_asked_for():
    assert tuple(PARTS) == OWN
    assert read_arguments(["--device", "cpu", "--small"]).parts == [*OWN, "steps-a"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is said where there is no GPU")
def test_without_a_gpu_each_part_says_what_torch_sees():
    for name in ("rates", "steps-a"):
        (row,) = part_of(name, read_arguments(["--part", name])).rows
        assert row.has_failed
        assert "cuda: torch" in row.note


def test_what_there_is_no_time_for_is_a_row():
    report = go(read_arguments(["--device", "cpu", "--small", "--limit-s", "1", "--parts", "rates", "agreement"]))
    assert [row.note for row in report.rows] == ["the 1 s of this go were over"] * 2
    assert report.about["device"] == "cpu"


@pytest.mark.slow
def test_a_part_that_does_not_end_is_a_row():
    words = ["--device", "cpu", "--small", "--limit-s", "5.2", "--parts", "steps-a"]
    (row,) = go(read_arguments(words)).rows
    assert row.has_failed
    assert "it did not end within 5 s" in row.note
