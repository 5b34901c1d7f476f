"""Rounds of repair see the public tests alone, as often as the budget allows; hidden ones decide at the end."""

import asyncio
import json

import pytest

from rollwright.recipes.worlds.repository import load
from rollwright.tasks import SplitSizes, repository_of
from rollwright.verifiers import Composition
from tests.environments.played import play, said, turn


@pytest.fixture(scope="module")
def world():
    world = load(call_s=20.0, max_calls=6)
    yield world
    world.close()


@pytest.fixture(scope="module")
def task(world):
    return next(task for stratum in world.tasks(SplitSizes(train=4, held_out=0), 0) for task in stratum.train)


def reward(world, played):
    (score,) = asyncio.run(Composition(world.parts).score([played.submission]))
    return score.outcome


def hidden_of(task):
    """Names that would give the hidden tests away."""
    tests = [*repository_of(task).fail_to_pass, *repository_of(task).pass_to_pass]
    return [test.test_id for test in tests]


@pytest.mark.row("S296")
def test_rounds_of_refinement_are_told_of_public_tests_and_the_last_attempt_is_scored_by_hidden_ones(
    world, task, renderer
):
    repository = repository_of(task)
    fix = repository.fix
    broken = repository.files[fix.path].replace(fix.old, f"{fix.old.rstrip()}  # looked at\n", 1)
    rounds = [
        turn("write_file", path=fix.path, text=broken),
        turn("run_tests"),
        turn("write_file", path=fix.path, text=repository.fixed[fix.path]),
        turn("run_tests"),
    ]
    refined = play(renderer, world.environment, task, [*rounds, said("done")])
    first, last = refined.results[1], refined.results[3]
    assert first[0] == "tool_error" and "FAILED" in first[1]
    assert last == ("ok", "5 of 5 tests pass")
    assert reward(world, refined) == 1.0
    unrefined = play(renderer, world.environment, task, [*rounds[:2], said("done")])
    assert reward(world, unrefined) == 0.0
    shown = json.dumps([text for _, text in refined.results])
    assert all(name not in shown for name in hidden_of(task))


@pytest.mark.row("S413")
def test_public_feedback_reveals_no_hidden_check_and_is_given_as_often_as_the_budget_allows(world, task, renderer):
    asked = [turn("run_tests") for _ in range(8)]
    played = play(renderer, world.environment, task, [*asked, said("done")])
    statuses = [status for status, _ in played.results]
    assert statuses == ["tool_error"] * 6 + ["limit"] * 2
    for status, text in played.results:
        assert all(name not in text for name in hidden_of(task))
        assert ("tests pass" in text) is (status != "limit")
    failed = {line.split()[1] for _, text in played.results for line in text.splitlines() if line.startswith("FAILED")}
    assert failed and all(name.startswith("tests.") for name in failed), "the public tests alone are named"
    assert reward(world, played) == 0.0
