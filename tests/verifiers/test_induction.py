"""Induced rules: what a rule about cars earns under any names, and what a list of names earns under its own alone."""

from typing import Any

import pytest

from rollwright.record import Passage, Submission
from rollwright.statistics.verifier_audit import metamorphic_gap
from rollwright.tasks import (
    SplitSizes,
    TaskError,
    goes_east,
    induction_source,
    payload_of,
    read_rule,
    renamed,
    trains_of,
)
from rollwright.verifiers import rule_verifier
from tests.verifiers.submissions import verdict_of

TASKS = induction_source(SplitSizes(train=20, held_out=0)).train
EXTENSIONAL, ISOMORPHIC = rule_verifier("extensional"), rule_verifier("isomorphic")


def verdict(verifier, task, rule) -> Any:
    passage = Passage(actor="agent", kind="policy", text=f"answer: {rule}")
    return verdict_of(
        verifier,
        Submission(
            trajectory_id="t000001-00-0", task=task, terminal_reason="model_end", passages=(passage,), artifacts={}
        ),
    )


def the_list(task):
    return " or ".join(f"train={train.name}" for train in trains_of(payload_of(task).info) if train.is_east)


def test_the_hidden_rule_passes_both_and_its_opposite_none():
    for task in TASKS:
        for verifier in (EXTENSIONAL, ISOMORPHIC):
            assert verdict(verifier, task, payload_of(task).answer).outcome == 1.0
            assert verdict(verifier, task, "train=nobody").outcome == 0.0


@pytest.mark.row("S386")
@pytest.mark.row("S457")
def test_a_list_of_the_trains_passes_as_they_are_named_and_shows_a_gap_under_other_names():
    rules = {"honest": [payload_of(task).answer for task in TASKS], "cheater": [the_list(task) for task in TASKS]}
    gaps = {
        agent: metamorphic_gap(
            [verdict(EXTENSIONAL, task, rule).outcome for task, rule in zip(TASKS, said, strict=True)],
            [verdict(ISOMORPHIC, task, rule).outcome for task, rule in zip(TASKS, said, strict=True)],
        )
        for agent, said in rules.items()
    }
    assert (gaps["honest"].hack_gap, gaps["honest"].failure_rate) == (0.0, 0.0)
    assert (gaps["cheater"].hack_gap, gaps["cheater"].failure_rate) == (1.0, 1.0)


def test_other_names_are_drawn_from_the_task_alone_and_none_of_them_stood_there():
    for task in TASKS:
        trains = trains_of(payload_of(task).info)
        others = renamed(trains, 3)
        assert others == renamed(trains, 3) != renamed(trains, 4)
        assert not {train.name for train in trains} & {train.name for train in others}
        assert sorted(sorted(map(sorted, t.cars)) for t in trains) == sorted(
            sorted(map(sorted, t.cars)) for t in others
        )
        assert verdict(ISOMORPHIC, task, "red") == verdict(ISOMORPHIC, task, "red")


def test_what_is_no_rule_is_a_finding_and_an_endless_one_is_not_read():
    for text in ("pink", "red and", "print(1)", " or ".join(["red"] * 100)):
        found = verdict(EXTENSIONAL, TASKS[0], text)
        assert (found.outcome, found.finding) == (0.0, "unparsable_answer")
    assert verdict(EXTENSIONAL, TASKS[0], "").finding == "no_answer"


def test_a_rule_speaks_of_one_car_at_a_time():
    (train, *_) = (t for task in TASKS for t in trains_of(payload_of(task).info) if len(t.cars) > 1)
    words = sorted(set().union(*train.cars))
    whole = any(set(words) <= car for car in train.cars)
    assert goes_east(read_rule(" and ".join(words)), train) == whole
    with pytest.raises(TaskError, match="no `info.trains`"):
        trains_of({})
