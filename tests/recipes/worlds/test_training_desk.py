"""An agent that trains under a budget: what it may do, what is recorded, and what the grader believes."""

import asyncio
import json

import pytest

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds import World, load_world
from rollwright.record import Submission, ToolRequest, canonical_json
from rollwright.tasks import TaskError, TrainingSettings, bandit_of, train_bandit
from tests.recipes.worlds.episodes import play, score, tasks_of


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("training_desk", {"budget": 400})


def trained(rate: float, steps: int, *, baseline: bool = True) -> DemonstratedTurn:
    return called("train", {"rate": rate, "steps": steps, "baseline": baseline})


def submitted(run: int) -> DemonstratedTurn:
    return called("submit", {"run": run})


def called(tool: str, arguments: dict) -> DemonstratedTurn:
    request = ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments))
    return DemonstratedTurn(text="", calls=(request,))


def told(submission: Submission) -> list[str]:
    return [passage.text for passage in submission.passages if passage.kind == "tool"]


@pytest.mark.row("S464")
def test_a_scripted_agent_trains_within_its_budget_submits_and_every_run_is_recorded(world):
    task = tasks_of(world)[0]
    turns = [trained(0.01, 100), trained(0.3, 250), trained(0.3, 51), submitted(1), trained(0.3, 1)]
    played = asyncio.run(play(world, task, turns))
    said = told(played)
    assert [text.split(":")[0] for text in said[:2]] == ["run 0", "run 1"]
    assert said[0].endswith("300 steps left")
    assert said[2] == "error: not_allowed: 50 steps are left"
    assert said[3:] == ["run 1 submitted", "error: not_allowed: a run was submitted already"]
    left = json.loads(played.artifacts["runs.json"])
    assert (left["submitted"], left["spent"]) == (1, 350)
    assert [(run["rate"], run["steps"]) for run in left["runs"]] == [(0.01, 100), (0.3, 250)]
    assert all(len(run["curve"]) == 10 for run in left["runs"])
    settings = TrainingSettings(rate=0.3, steps=250, baseline=True)
    expected = train_bandit(bandit_of(task), settings, number=1).value(bandit_of(task))
    found = score(world, task, turns)
    assert found.outcome == pytest.approx(expected)
    assert {c.name: c.value for c in found.verdicts[0].components} == {"runs": 2.0, "spent": 350.0}


@pytest.mark.row("S464")
def test_the_grader_trains_again_and_believes_neither_a_curve_nor_a_budget_that_was_written_for_it(world):
    task = tasks_of(world)[0]
    (part,) = world.parts

    def graded(**left) -> tuple[float | str, str | None]:
        one = Submission(
            trajectory_id="t000001-00-0", task=task, terminal_reason="model_end", passages=(),
            artifacts={"runs.json": json.dumps(left).encode()},
        )  # fmt: skip
        (verdict,) = asyncio.run(part.verifier.verify([one]))
        return verdict.outcome, verdict.finding

    poor = {"rate": 0.001, "steps": 5, "baseline": True, "curve": [1.0] * 10}
    assert float(graded(runs=[poor], submitted=0, spent=5)[0]) < 0.6
    assert graded(runs=[{**poor, "steps": 401}], submitted=0, spent=1) == (0.0, "over_budget")
    assert graded(runs=[poor], submitted=None, spent=5) == (0.0, "nothing_submitted")
    assert graded(runs=[poor], submitted=3, spent=5) == (0.0, "nothing_submitted")
    assert graded(submitted=0) == ("grader_error", None)


def test_settings_matter_and_equal_ones_train_equal_policies(world):
    bandits = [bandit_of(task) for task in tasks_of(world, 12)]

    def mean(rate: float) -> float:
        settings = TrainingSettings(rate=rate, steps=400, baseline=True)
        return sum(train_bandit(one, settings, number=0).value(one) for one in bandits) / len(bandits)

    assert mean(0.3) > 0.8 > mean(0.01)
    assert mean(0.3) > mean(10.0)
    assert mean(0.3) == mean(0.3)
    with pytest.raises(TaskError, match=r"0\.001 to 10"):
        TrainingSettings(rate=11.0, steps=1, baseline=True)
