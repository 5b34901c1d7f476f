"""A world of over a hundred tools: listed by domain, played through them, watched for collapse."""

import json

import pytest

from rollwright.cli.main import run_command
from rollwright.environments import StatefulEnvironment
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import load_world
from rollwright.recipes.worlds.domains import tools_by_domain
from rollwright.runtime.tool_use import ToolUseWatch
from rollwright.tasks import slice_of
from tests.recipes.worlds.episodes import score, tasks_of
from tests.runtime.test_metrics import measured, member, value


@pytest.mark.row("S454")
def test_over_a_hundred_tools_load_and_are_listed_by_domain(capsys):
    world = load_world("clinic", {})
    assert run_command(["env", "list", "--tools", "clinic", "--json"]) == 0
    listed = {line["domain"]: line["tools"] for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert listed == {domain: list(tools) for domain, tools in world.domains.items()}
    assert len(listed) == 10
    assert isinstance(world.environment, StatefulEnvironment)
    assert sum(map(len, listed.values())) == len(world.environment.tools) == 120
    assert run_command(["env", "list", "--tools", "clinic", "--arg", "domains=billing,surgery"]) == 0
    assert capsys.readouterr().out.endswith("24 tools in 2 domains\n")


@pytest.mark.row("S454")
def test_a_task_of_every_domain_is_solved_through_its_tools_and_reports_how_often_each_was_used():
    world = load_world("clinic", {})
    tasks = {slice_of(task): task for task in tasks_of(world, 40)}
    assert set(tasks) == set(world.domains)
    assert {score(world, task, world.reference(task, 0)).outcome for task in tasks.values()} == {1.0}
    used = member(0, 1.0, statuses=("ok",) * 3, tools=("scan", "scan", "menu"))
    metrics = measured([used, member(1, 0.0, statuses=("ok",), tools=("scan",))])
    assert value(metrics, "env/tool_calls") == 2.0
    assert value(metrics, "env/tool_calls", tool="scan") == 1.5
    assert value(metrics, "env/tool_calls", tool="menu") == 0.5


def step_of(*tools: str):
    return [member(slot, 1.0, statuses=("ok",) * len(tools), tools=tools) for slot in range(2)]


@pytest.mark.row("S454")
def test_the_watch_reports_tool_use_when_a_policy_stops_calling():
    watch = ToolUseWatch()
    said = [watch.see(step, step_of("scan", "menu", "trace")) for step in range(1, 8)]
    said += [watch.see(step, step_of()) for step in range(8, 20)]
    spoken = [sentence for sentences in said for sentence in sentences]
    assert len(spoken) == 1
    assert spoken[0].startswith("tool use has collapsed at step 11: over the last 5 steps 0.60 calls and 1.0 turns")
    assert "there were 3.00" in spoken[0]


def test_the_watch_reports_one_tool_that_takes_over_and_says_it_again_only_after_it_had_gone():
    watch, varied, narrow = ToolUseWatch(), step_of("scan", "menu", "trace"), step_of("scan")
    said = [watch.see(1, members) for members in [*[varied] * 6, *[narrow] * 9, *[varied] * 6, *[narrow] * 9]]
    spoken = [sentence for sentences in said for sentence in sentences]
    assert [sentence.startswith("the choice of tools has collapsed") for sentence in spoken] == [True, True]
    assert "100% of 10 calls are of scan" in spoken[0]


def test_a_policy_that_never_called_tools_has_lost_nothing():
    watch = ToolUseWatch()
    assert [watch.see(step, step_of()) for step in range(12)] == [()] * 12
    assert watch.see(13, []) == ()


def test_a_world_without_domains_lists_its_tools_under_its_own_name():
    assert tools_by_domain("arithmetic", {}) == {"arithmetic": ("calculator",)}
    with pytest.raises(RecipeError, match="there are pharmacy"):
        tools_by_domain("clinic", {"domains": "garage"})


def test_domains_that_leave_a_tool_out_are_refused():
    with pytest.raises(RecipeError, match=r"differ in calculator; name each once"):
        tools_by_domain("tests.recipes.worlds.test_clinic:unlisted", {})


def unlisted():
    from dataclasses import replace

    return replace(load_world("arithmetic", {}), domains={"sums": ()})
