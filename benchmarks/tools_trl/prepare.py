"""Makes what both sides are given, once: warm-started models, and tasks in the order in which they are drawn.

python -m benchmarks.tools_trl.prepare [MODEL ...]
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from benchmarks.tools_trl.job import Job
from benchmarks.tools_trl.plan import CACHE, PLAN, model_folder, tasks_file
from rollwright.learner.models import load_causal_lm, num_parameters
from rollwright.recipes.build.tasks import build_mixture
from rollwright.recipes.resolve import Resolved, resolve_text
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.record import Task, seed_of
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.tasks import TaskOrder, payload_of

__all__ = ["Silent", "num_parameters_of", "prepare_model", "prepare_tasks", "recipe_of", "run_order"]

MANY = 1_000_000
_STAYS = {"progress.json", "checkpoint.json"}
"""Of a checkpoint: a run's bookkeeping."""
WORLD: dict[str, Any] = {
    "tasks": {"kind": "arithmetic"},
    "environment": {"kind": "tool", "tools": ["calculator"], "max_calls": 1000},
    "verifier": {"parts": [{"kind": "exact"}, {"kind": "format"}]},
    "evaluation": {"tasks": 1, "samples": 1, "attempts": [1]},
}
"""As in the default recipe; calls are bounded by the turns alone, as in TRL."""


class Silent:
    """An observer that hears nothing."""

    def run_started(self, report: RunStarted) -> None: ...

    def stage_started(self, report: StageStarted) -> None: ...

    def step_finished(self, report: StepReport) -> None: ...

    def evaluating(self, report: EvaluationProgress) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def warned(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


def recipe_of(job: Job) -> Resolved:
    """A run of the RL stage, as a person would write it."""
    episodes, optimizer = PLAN["episodes"], PLAN["optimizer"]
    limits = ("batch_size", "group_size", "max_turns", "max_turn_tokens", "max_episode_tokens", "temperature")
    sections = WORLD | {
        "run": {"name": "tools-trl", "steps": job.steps, "seed": job.seed},
        "model": {"kind": "local", "path": job.model},
        "engine": {
            "num_slots": episodes["batch_size"],
            "max_context_tokens": PLAN["warm_start"]["max_context_tokens"],
        },
        "rollout": {key: episodes[key] for key in limits} | {"truncation": "negative"},
        "objective": {"kind": "dr_grpo", "denominator": "token_mean", "reward_scaling": "none"},
        "learner": {
            "learning_rate": job.learning_rate,
            "schedule": "constant",
            "adam_beta1": optimizer["beta1"],
            "adam_beta2": optimizer["beta2"],
            "adam_epsilon": optimizer["epsilon"],
            "max_grad_norm": optimizer["max_grad_norm"],
        },
        "runtime": {
            "threads": 1,
            "concurrency": episodes["batch_size"],
            "checkpoint_every": job.save_every or MANY,
            "keep_every": job.save_every,
        },
        "evaluation": WORLD["evaluation"] | {"every": MANY},
        "stages": [{"kind": "rl", "name": "rl"}],
    }
    return resolve_text(tomlkit.dumps(sections), origin="benchmarks/tools_trl/prepare.py")


def run_order(resolved: Resolved, run: Path) -> TrainOrder:
    return TrainOrder(resolved=resolved, run_dir=run, source=None, is_rollouts_only=False)


def prepare_model(name: str) -> Path:
    """The folder of a warm-started model, trained where it is not there yet."""
    folder = model_folder(name)
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            run, part = Path(scratch) / "run", Path(scratch) / "model"
            train_run(run_order(_warm_start(name), run), Silent())
            newest = max((run / "checkpoints").iterdir())
            part.mkdir()
            for file in newest.iterdir():
                if file.is_file() and file.name not in _STAYS:
                    shutil.copyfile(file, part / file.name)
            part.rename(folder)
    return folder


def num_parameters_of(name: str) -> int:
    """Numbers that training moves."""
    return num_parameters(load_causal_lm(model_folder(name)))


def _warm_start(name: str) -> Resolved:
    warm = PLAN["warm_start"]
    shape = dict(PLAN["models"][name])
    of_stage = {"learning_rate": shape.pop("warm_start_rate")}
    of_stage |= {key: warm[key] for key in ("steps", "batch_size", "warmup_updates")}
    of_model = shape | {key: warm[key] for key in ("vocabulary_tokens", "max_context_tokens", "initial_std")}
    sections = WORLD | {
        "run": {"name": "tools-trl-warm-start", "seed": warm["seed"]},
        "environment": WORLD["environment"] | {"tool_share": 0.5},
        "model": {"kind": "fresh"} | of_model,
        "engine": {"num_slots": warm["batch_size"], "max_context_tokens": warm["max_context_tokens"]},
        "rollout": {"max_turn_tokens": PLAN["episodes"]["max_turn_tokens"]},
        "objective": {"kind": "dr_grpo"},
        "runtime": {"threads": 1, "checkpoint_every": MANY},
        "stages": [{"kind": "supervised", "name": "warm_start", "schedule": "cosine"} | of_stage],
    }
    return resolve_text(tomlkit.dumps(sections), origin="benchmarks/tools_trl/prepare.py")


def prepare_tasks(job: Job) -> Path:
    """The tasks of a run in the order in which its dispatcher draws them, one a group."""
    recipe = recipe_of(job).recipe
    stage = recipe.stages[0].name
    order = TaskOrder(build_mixture(recipe.tasks, seed=job.seed), seed=seed_of(job.seed, "order", stage))
    groups = recipe.rollout.batch_size // recipe.rollout.group_size
    count = groups * job.steps
    return _written(tasks_file(job.seed, count), (order.take() for _ in range(count)))


def _written(file: Path, tasks: Iterable[Task]) -> Path:
    rows: list[str] = []
    for task in tasks:
        payload = payload_of(task)
        question = payload.messages[0].text
        rows.append(json.dumps({"task_id": task.task_id, "question": question, "answer": payload.answer}) + "\n")
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text("".join(rows), encoding="utf-8")
    part.replace(file)
    return file


def main(names: Sequence[str]) -> None:
    for name in names or sorted(PLAN["models"]):
        print(f"{name}: {prepare_model(name)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
