"""What a run stands on is refused before anything is sampled where it does not fit."""

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rollwright.environments import ToolEnvironment
from rollwright.recipes.build.model import build_tokenizer
from rollwright.recipes.build.start import model_source
from rollwright.recipes.build.world import build_world, refuse_undemonstrated
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.recipes.worlds import World, arithmetic
from rollwright.record import Environment
from tests.end_to_end.small import Listener


class Untaught:
    """Has no `demonstrate` at all."""

    name = "untaught"
    revision = "1"
    actors = {"agent": "policy"}

    def open(self, task, *, seed, snapshot=None):
        return ToolEnvironment(tools=[]).open(task, seed=seed, snapshot=snapshot)


def of_arithmetic(environment: Environment) -> World:
    return replace(arithmetic.load(), environment=environment)


def mute() -> World:
    """A world that can be played, and not shown."""
    return of_arithmetic(ToolEnvironment(tools=[], name="mute"))


def untaught() -> World:
    """The same, of an environment that knows nothing of demonstrations."""
    return of_arithmetic(Untaught())


class Narrow:
    """Two episodes of it can be open at once; each more is counted."""

    def __init__(self):
        self._inner = arithmetic.load().environment
        self.name, self.revision, self.actors = self._inner.name, self._inner.revision, self._inner.actors
        self.open_now = self.most_open = 0

    @asynccontextmanager
    async def open(self, task, *, seed, snapshot=None):
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            async with self._inner.open(task, seed=seed, snapshot=snapshot) as episode:
                yield episode
        finally:
            self.open_now -= 1


NARROW = Narrow()


def narrow() -> World:
    return replace(of_arithmetic(NARROW), max_open=2)


HERE = "tests.recipes.test_world"
NOTHING_SHOWN = {
    "a world of one's own": ([f"environment.name={HERE}:mute"], "its environment `demonstrate=reference`"),
    "an environment without the method": (
        [f"environment.name={HERE}:untaught"],
        "its environment `demonstrate=reference`",
    ),
    "a custom environment": (
        [
            f'environment={{kind="custom", path="{HERE}:Untaught"}}',
            'tasks={kind="arithmetic"}',
            'verifier.parts=[{kind="numeric"}]',
        ],
        "give it demonstrate(task, seed)",
    ),
}


def without(tmp_path: Path, settings: list[str]) -> tuple[Resolved, Path]:
    """A recipe whose model is nowhere: what is said first is said before a model is looked for."""
    return resolve("tiny-agent", [*settings, 'model={kind="local", path="nowhere"}']), tmp_path / "run"


@pytest.mark.parametrize(("settings", "fix"), NOTHING_SHOWN.values(), ids=NOTHING_SHOWN)
def test_a_supervised_stage_without_demonstrations_is_refused_before_anything_is_made(tmp_path, settings, fix):
    resolved, path = without(tmp_path, settings)
    with pytest.raises(RecipeError, match="stage 'warm_start' plays demonstrations") as refused:
        train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    assert fix in str(refused.value)
    assert """--set 'stages=[{kind="rl", name="rl"}]'""" in str(refused.value)
    assert not path.exists()


def test_the_argument_that_brings_demonstrations_to_an_adapter_is_named(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"prompt": "{n}"}}\n' for n in range(400)), encoding="utf-8")
    arguments = f'{{package="pytest", entry="tests.recipes.test_world:mute", rows="{rows}"}}'
    sizes = ["tasks.num_train=200", "tasks.num_held_out=100"]
    recipe = resolve("tiny-agent", ["environment.name=reset_step", f"environment.arguments={arguments}", *sizes]).recipe
    world = build_world(recipe)
    with pytest.raises(RecipeError, match=r"--set environment\.arguments\.reference=package\.module:function"):
        refuse_undemonstrated(recipe, world)


def test_without_its_supervised_stage_a_world_that_shows_nothing_is_taken(tmp_path):
    recipe = resolve("tiny-agent", [f"environment.name={HERE}:untaught", 'stages=[{kind="rl", name="rl"}]']).recipe
    world = build_world(recipe)
    refuse_undemonstrated(recipe, world)
    build_tokenizer(model_source(recipe, world), tmp_path)
    assert (tmp_path / "tokenizer.json").exists()


@pytest.mark.parametrize("targets", ["arithmatic=1.0", "arithmetic=0.5, other=0.5"])
def test_targets_of_other_sources_than_the_tasks_are_refused_by_name(targets):
    recipe = resolve("arithmetic-tool", [f"objective.source_targets={{{targets}}}"]).recipe
    with pytest.raises(RecipeError, match="but the tasks come from arithmetic; give each of these its share"):
        build_world(recipe)


def test_targets_of_all_sources_are_taken():
    build_world(resolve("arithmetic-tool", ["objective.source_targets={arithmetic=0.5}"]).recipe).close()


def test_no_more_episodes_are_started_than_their_world_can_have_open(tmp_path):
    settings = [
        f"environment.name={HERE}:narrow",
        'stages=[{kind="rl", name="rl"}]',
        "run.steps=1",
        "rollout.batch_size=8",
        "rollout.max_turns=1",
        "rollout.max_turn_tokens=8",
    ]
    listener = Listener()
    order = TrainOrder(
        resolved=resolve("tiny-agent", settings), run_dir=tmp_path / "run", source=None, is_rollouts_only=True
    )
    assert train_run(order, listener).num_episodes == 8
    assert NARROW.most_open == 2 and NARROW.open_now == 0
    said = [sentence for sentence in listener.warnings if "episodes run at once" in sentence]
    assert len(said) == 1 and said[0].startswith("2 episodes run at once, of the 64") and "environment 2" in said[0]
