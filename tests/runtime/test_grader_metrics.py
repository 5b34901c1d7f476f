"""What verdicts say of the graders that gave them, over a batch, counted by hand."""

import asyncio
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from scipy.stats import pearsonr

from rollwright.record import Canonical, NamedValue, Verdict
from rollwright.runtime.episode_metrics import StepEpisodes, episode_metrics
from rollwright.runtime.grader_metrics import grader_metrics
from rollwright.verifiers.ensemble import EnsembleVerifier
from rollwright.verifiers.grading import FunctionVerifier, Grade
from tests.runtime.test_metrics import member
from tests.verifiers.submissions import submitted


def verdict(name, value, *, components=(), canonical=None):
    return Verdict(
        trajectory_id="made",
        verifier=name,
        revision="r1",
        scope="trajectory",
        outcome=value,
        components=tuple(NamedValue(name=n, value=v) for n, v in components),
        canonical=canonical,
    )


def judged(slot, *verdicts, **kwargs):
    return replace(member(slot, 1.0, **kwargs), verdicts=verdicts)


def value(numbers, name, **labels):
    (found,) = [n for n in numbers if n.name == name and dict(n.labels) == labels]
    return found.value


def constant(name, value):
    return FunctionVerifier(name=name, revision="r1", grade=lambda _: Grade(value=value))


def test_two_graders_of_one_episode_differ_where_one_accepts_and_one_does_not():
    members = [
        judged(0, verdict("exact", 1.0), verdict("second", 0.0)),
        judged(1, verdict("exact", 1.0), verdict("second", 1.0)),
        judged(2, verdict("exact", 0.0), verdict("second", "timeout")),
        judged(3, verdict("exact", 0.0), verdict("format", 1.0)),
    ]
    numbers = list(grader_metrics(members, {"exact", "second"}, success_at=1.0))
    assert value(numbers, "verifier/disagreement") == 0.5


def test_parts_of_an_ensemble_are_graders_too():
    ensemble = EnsembleVerifier(members=(constant("a", 1.0), constant("b", 0.0)), penalty=1.0)
    (said,) = asyncio.run(ensemble.verify([submitted("answer: 1")]))
    numbers = list(grader_metrics([judged(0, said)], {"ensemble"}, success_at=1.0))
    assert value(numbers, "verifier/disagreement") == 1.0


def test_one_grader_alone_neither_agrees_nor_disagrees():
    numbers = list(grader_metrics([judged(0, verdict("exact", 1.0))], {"exact"}, success_at=1.0))
    assert value(numbers, "verifier/disagreement") is None


def test_verdicts_of_repeated_runs_waver_where_a_check_came_out_both_ways():
    members = [judged(n, verdict("tests", 1.0, components=[("flaky", float(n))])) for n in range(4)]
    assert value(list(grader_metrics(members, set(), success_at=1.0)), "verifier/flaky_rate") == 0.75


def test_the_position_gap_is_a_mean_over_what_a_judge_compared():
    members = [
        judged(n, verdict("pairwise", 0.5, components=[("position_gap", gap)])) for n, gap in enumerate((0, 0.4))
    ]
    assert value(list(grader_metrics(members, set(), success_at=1.0)), "judge/position_gap") == pytest.approx(0.2)


def test_length_correlation_is_pearsons_of_each_grader():
    scores, lengths = [0.1, 0.5, 0.2, 0.9], [3, 40, 9, 70]
    members = [
        judged(n, verdict("judge", s), verdict("exact", 1.0), tokens=length)
        for n, (s, length) in enumerate(zip(scores, lengths, strict=True))
    ]
    numbers = list(grader_metrics(members, set(), success_at=1.0))
    due = float(np.asarray(pearsonr(scores, lengths))[0])
    assert value(numbers, "judge/len_corr", verifier="judge") == pytest.approx(due)
    assert value(numbers, "judge/len_corr", verifier="exact") is None


def test_answers_and_programs_of_a_prompt_are_counted_as_graders_read_them():
    def read(slot, text, kind: Literal["answer", "program"] = "answer", group=0):
        return judged(slot, verdict("exact", 1.0, canonical=Canonical(kind=kind, text=text)), group=group)

    members = [read(0, "7"), read(1, "7"), read(2, "8"), read(0, "x", "program", 1), read(1, "y", "program", 1)]
    numbers = list(episode_metrics(StepEpisodes(members=members, others=(), success_at=1.0)))
    assert value(numbers, "explore/unique_answers") == 2.0
    assert value(numbers, "explore/unique_programs") == 2.0


def test_files_that_episodes_left_are_programs_where_nobody_read_one():
    members = [member(n, 1.0) for n in range(3)]
    left = [{"main.py": b"a"}, {"main.py": b"a"}, {"main.py": b"b"}]
    members = [
        replace(m, trajectory=replace(m.trajectory, artifacts=files)) for m, files in zip(members, left, strict=True)
    ]
    numbers = list(episode_metrics(StepEpisodes(members=members, others=(), success_at=1.0)))
    assert value(numbers, "explore/unique_programs") == 2.0
    assert value(numbers, "explore/unique_answers") is None
