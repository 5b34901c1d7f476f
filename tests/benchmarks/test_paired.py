"""Sides in alternation: what a worker says and what becomes of it. No time is judged here."""

import json
import sys

import pytest

from benchmarks.paired import Comparison, PairError, Timing, compare, ratio_of

SERVES = "from benchmarks.paired import serve; print('noise'); {}; serve(lambda: {{'tokens': {}}}, {{'side': '{}'}})"
LOGS = """
import sys
from benchmarks.paired import serve
log = open(sys.argv[1], "a")
serve(lambda: (log.write(sys.argv[2]), log.flush(), {"tokens": 1})[2], {})
"""
PACED = """
from benchmarks.paired import Pacer
pacer = Pacer({"steps": "of another's loop"})
goes_on, done = pacer.begin(), 0
while goes_on:
    done += 1
    goes_on = pacer.ended({"step": done})
pacer.tell({"done": done})
"""


def worker(tokens: int, side: str, before: str = "pass") -> list[str]:
    return [sys.executable, "-S", "-c", SERVES.format(before, tokens, side)]


def test_sides_are_asked_as_often_as_each_other_and_tell_what_they_counted():
    found = compare({"one": worker(3, "a"), "two": worker(5, "b")}, repetitions=4, warm_up=1)
    assert {side: len(timings) for side, timings in found.timings.items()} == {"one": 4, "two": 4}
    assert (found.mean_count("one", "tokens"), found.mean_count("two", "tokens")) == (3, 5)
    assert found.about == {"one": {"side": "a"}, "two": {"side": "b"}}
    json.dumps(found.to_json())


def test_order_of_sides_changes_from_turn_to_turn(tmp_path):
    log = tmp_path / "log"
    sides = {side: [sys.executable, "-S", "-c", LOGS, str(log), side] for side in "ab"}
    compare(sides, repetitions=3, warm_up=1)
    assert log.read_text() == "baabbaab"


def test_another_loop_is_paced_and_tells_in_the_end():
    found = compare({"one": [sys.executable, "-S", "-c", PACED]}, repetitions=2, warm_up=1)
    assert [timing.counts["step"] for timing in found.timings["one"]] == [2, 3]
    assert found.told["one"] == {"done": 3}


def test_a_side_that_dies_is_named_with_what_it_said():
    with pytest.raises(PairError, match=r"(?s)two ended with code 1.*no such module as this"):
        compare({"one": worker(1, "a"), "two": worker(1, "b", "raise ImportError('no such module as this')")})


def test_a_side_that_cannot_be_started_is_named():
    with pytest.raises(PairError, match="one cannot be started"):
        compare({"one": ["/nonexistent/python"]})


def test_an_interpreter_without_any_package_can_be_a_side():
    code = SERVES.format("pass", 1, "bare")
    found = compare({"bare": [sys.executable, "-S", "-c", code]}, repetitions=1, warm_up=0)
    assert found.about["bare"] == {"side": "bare"}


def test_a_ratio_is_the_median_of_turns_with_its_spread():
    ratio = ratio_of([(2.0, 1.0), (9.0, 3.0), (40.0, 10.0)])
    assert (ratio.low, ratio.value, ratio.high) == (2.0, 3.0, 4.0)
    assert ratio.of_medians == 3.0


def test_a_ratio_for_each_thing_counted_takes_unequal_work_out():
    slow, fast = [Timing(4.0, 4.0, {"tokens": 2})] * 2, [Timing(3.0, 3.0, {"tokens": 3})] * 2
    found = Comparison({"slow": slow, "fast": fast}, {}, {})
    assert found.per_count("slow", "fast", "tokens").value == 2.0
    assert found.ratio("slow", "fast").value == pytest.approx(4 / 3)
