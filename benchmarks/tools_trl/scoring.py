"""Scores weights of either side by one procedure: the same tasks, seeds and limits, through rollwright's episodes.

    python -m benchmarks.tools_trl.scoring tuning|held_out FOLDER ...

prints a JSON object for each folder of weights.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Literal

from benchmarks.tools_trl.job import Job
from benchmarks.tools_trl.plan import PLAN, model_folder
from benchmarks.tools_trl.prepare import recipe_of
from rollwright.evaluation import Evaluation, EvaluationProtocol, Harness, evaluate
from rollwright.learner.models import load_causal_lm
from rollwright.recipes.build.protocols import build_protocols
from rollwright.recipes.build.session import Foundation, lay_foundation, make_episodes, open_engine
from rollwright.recipes.build.tasks import build_mixture
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.tasks import ArithmeticTasksConfig
from rollwright.record import Task
from rollwright.runtime.weights import WeightShelf

__all__ = ["Part", "Score", "score", "tasks_of"]

Part = Literal["tuning", "held_out"]


@dataclass(frozen=True)
class Score:
    """Success of one folder of weights."""

    folder: str
    success: float
    low: float
    high: float


def tasks_of(part: Part) -> tuple[Task, ...]:
    """Tasks that are trained on at no seed: every second one of the held-out list is for tuning alone."""
    plan = PLAN["scoring"]
    tasks = ArithmeticTasksConfig(num_held_out=4 * plan["tasks"])
    listed = build_mixture(tasks, seed=plan["seed"]).hold_out(2 * plan["tasks"], seed=plan["seed"]).tasks
    return listed[0::2] if part == "tuning" else listed[1::2]


def score(part: Part, folders: Sequence[Path]) -> Iterator[Score]:
    """Score every folder, which holds weights and configuration; the tokenizer is that of the warm start."""
    plan = PLAN["scoring"]
    origin = model_folder(PLAN["success"]["model"])
    job = Job(model=str(origin), seed=plan["seed"], learning_rate=1.0, steps=1, save_every=0, out="")
    recipe = recipe_of(job).recipe
    engine = recipe.engine.model_copy(update={"num_slots": plan["slots"]})
    asked = recipe.evaluation.model_copy(update={"samples": plan["samples"], "temperature": plan["temperature"]})
    runtime = recipe.runtime.model_copy(update={"concurrency": plan["slots"]})
    recipe = recipe.model_copy(update={"engine": engine, "evaluation": asked, "runtime": runtime})
    world = build_world(recipe)
    try:
        foundation = lay_foundation(recipe, world, origin, lambda: load_causal_lm(origin))
        [protocol] = build_protocols(recipe, world, foundation.rendering_revision)
        protocol = replace(protocol, tasks=tasks_of(part))
        for folder in folders:
            found = asyncio.run(_measured(replace(foundation, model=load_causal_lm(folder)), protocol))
            assert found.success is not None and found.low is not None and found.high is not None
            yield Score(str(folder), found.success, found.low, found.high)
    finally:
        world.close()


async def _measured(foundation: Foundation, protocol: EvaluationProtocol) -> Evaluation:
    ids = count()
    engine = open_engine(foundation, WeightShelf(), version=0)
    try:
        episodes = make_episodes(foundation, engine)
        harness = Harness(
            take_group=lambda: next(ids),
            run_episode=lambda attempt: episodes.evaluate(protocol, attempt),
            score=episodes.score,
            now=lambda: datetime.now(UTC),
        )
        return await evaluate(protocol, harness, step=0)
    finally:
        await engine.close()


def main(part: str, folders: Sequence[str]) -> None:
    assert part in ("tuning", "held_out"), __doc__
    for found in score(part, [Path(folder) for folder in folders]):
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
