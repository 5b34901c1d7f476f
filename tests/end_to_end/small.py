"""A whole run that takes seconds, by the same path as a long one: the settings, and the ways to start it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwright.evidence import query
from rollwright.recipes.resolve import Resolved, resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport

ROOT = Path(__file__).parents[2]
RECIPE = "arithmetic-tool"
PARITY = 'verifier.parts=[{kind="custom", path="tests.end_to_end.parts:parity"}]'
"""A reward that an untaught model earns half of the time, so that groups have contrast from the first step."""

SMALL = (
    "run.steps=2",
    "rollout.batch_size=16",
    "rollout.group_size=4",
    "rollout.max_turn_tokens=56",
    "evaluation.tasks=8",
    "evaluation.samples=1",
    "stages.warm_start.steps=3",
    "stages.warm_start.batch_size=8",
    "stages.warm_start.schedule=linear",
    "stages.warm_start.warmup_updates=0",
    "learner.learning_rate=1e-3",
    "learner.schedule=linear",
    "learner.warmup_updates=0",
    "model.hidden_size=32",
    "model.num_layers=1",
    "model.num_heads=1",
    "model.num_kv_heads=1",
    "model.intermediate_size=64",
    "model.vocabulary_tokens=300",
    "model.tokenizer_texts=50",
    "tasks.num_train=64",
    "tasks.num_held_out=32",
    "model.max_context_tokens=256",
    "engine.max_context_tokens=256",
    "runtime.threads=1",
    PARITY,
)
THREE_STEPS = ("run.steps=3", "evaluation.every=3")
TAUGHT = (
    "stages.warm_start.steps=40",
    "stages.warm_start.batch_size=16",
    "stages.warm_start.learning_rate=1e-2",
    "environment.tool_share=0.9",
    "rollout.batch_size=32",
)
"""On top: the warm start lasts until the policy calls the tool, rightly and wrongly; some seconds more."""


def small(*settings: str) -> Resolved:
    """The default recipe, made small, with `settings` on top."""
    return resolve(RECIPE, (*SMALL, *settings))


def small_rl(*settings: str) -> Resolved:
    """The same without a warm start."""
    kept = [setting for setting in SMALL if not setting.startswith("stages.")]
    return resolve(RECIPE, ('stages=[{kind="rl", name="rl"}]', *kept, *settings))


def arguments(*settings: str) -> list[str]:
    """`--set` for each of the small settings and for `settings`."""
    return [word for setting in (*SMALL, *settings) for word in ("--set", setting)]


class Listener:
    """An observer that keeps what it heard."""

    def __init__(self) -> None:
        self.started: list[RunStarted] = []
        self.stages: list[StageStarted] = []
        self.steps: list[StepReport] = []
        self.evaluating_now: list[EvaluationProgress] = []
        self.evaluations: list[EvaluationReport] = []
        self.warnings: list[str] = []

    def run_started(self, report: RunStarted) -> None:
        self.started.append(report)

    def stage_started(self, report: StageStarted) -> None:
        self.stages.append(report)

    def step_finished(self, report: StepReport) -> None:
        self.steps.append(report)

    def evaluating(self, report: EvaluationProgress) -> None:
        self.evaluating_now.append(report)

    def evaluated(self, report: EvaluationReport) -> None:
        self.evaluations.append(report)

    def warned(self, sentence: str) -> None:
        self.warnings.append(sentence)


def trained(path: Path, resolved: Resolved) -> Path:
    """Train a recipe to its end; gives the run's folder back."""
    train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    return path


def rows(run: Path, sql: str) -> tuple[Any, ...]:
    """What a run answers."""
    return tuple(query(run, sql).rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict]:
        """The objects that it printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> dict:
        """The last object."""
        return self.lines[-1]


def rollwright(*words: str | Path, timeout_s: float = 120.0) -> Ended:
    """Run the installed command in a process of its own, to its end."""
    process = start(*words)
    out, err = process.communicate(timeout=timeout_s)
    return Ended(code=process.returncode, out=out, err=err)


def start(*words: str | Path, before: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
    """Start the installed command; `before` runs in the child."""
    command = Path(sys.executable).parent / "rollwright"
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
    }
    return subprocess.Popen(
        [str(command), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
        preexec_fn=before,
    )


def wait_for(process: "subprocess.Popen[str]", is_there: Callable[[], bool], *, timeout_s: float = 120.0) -> None:
    """Wait until something is on disk, or the process has ended."""
    end = time.monotonic() + timeout_s
    while process.poll() is None and not is_there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def kill(process: "subprocess.Popen[str]") -> None:
    """SIGKILL, and wait."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def commits_of(run: Path) -> Sequence[str]:
    """Names of the committed steps."""
    return sorted(p.name for p in (run / "commits").glob("*.json"))
