"""Steps of rollwright by its ordinary wiring, a short run for each line that asks.

A recipe is resolved and trained as `rollwright train` does it: sampling, verification, the ledger, receipts and the
store of a run folder, the update and the publication of its weights.
"""

import json
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import tomlkit
import torch

from benchmarks.against_trl.job import BETAS, CLIP_HIGH, CLIP_LOW, Job, read_job
from benchmarks.paired import Pacer
from benchmarks.tools_trl.workers import Stamps
from benchmarks.workloads import prompts, reward_of
from rollwright.evidence import query
from rollwright.recipes.resolve import Resolved, resolve_text
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.record import Passage, Submission, Verifier
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.verifiers import FunctionVerifier, Grade

MANY = 1_000_000
LENGTHS = "SELECT num_action_tokens FROM trajectories WHERE purpose = 'train' ORDER BY trajectory_id"


def by_hash() -> Verifier:
    """The verifier that the recipe names."""
    return FunctionVerifier(name="by_hash", revision="by-hash-1", grade=grade)


def grade(submission: Submission) -> Grade:
    """`reward_of` what the policy wrote."""
    return Grade(value=reward_of("".join(_written(passage) for passage in submission.passages)))


def _written(passage: Passage) -> str:
    return passage.text if passage.kind in ("policy", "reasoning") else ""


def recipe_of(job: Job, folder: Path, number: int) -> Resolved:
    """The recipe as a person would write it, of one repetition; its tasks lie in `folder`."""
    work = job.workload
    asked = prompts(work)
    for name, some in (("train", asked), ("held_out", [asked[0][::-1]])):
        rows = "".join(json.dumps({"prompt": prompt, "answer": "0"}) + "\n" for prompt in some)
        (folder / f"{name}.jsonl").write_text(rows, encoding="utf-8")
    sections = {
        "run": {"name": f"against-trl-{work.name}", "steps": work.counted + 2, "seed": work.seed + number},
        "model": {"kind": "local", "path": str(job.model)},
        "tasks": {"kind": "jsonl", "train": str(folder / "train.jsonl"), "held_out": str(folder / "held_out.jsonl")},
        "environment": {"kind": "tool", "tools": []},
        "verifier": {"parts": [{"kind": "custom", "path": "benchmarks.against_trl.ours:by_hash"}]},
        "engine": engine_of(job),
        "rollout": {
            "batch_size": work.completions,
            "group_size": work.group_size,
            "max_turns": 1,
            "max_turn_tokens": work.max_tokens,
            "max_episode_tokens": work.max_tokens,
            # A completion that the limit cut keeps its reward, as in TRL: the ramp begins where none can come.
            "truncation": "soft_penalty",
            "overlong_max_tokens": MANY,
            "overlong_buffer_tokens": 1,
        },
        "objective": {
            "kind": "dapo",
            "surrogate": {"clip_low": CLIP_LOW, "clip_high": CLIP_HIGH},
        },
        "learner": {
            "device": job.device,
            "dtype": job.dtype,
            "learning_rate": work.learning_rate,
            "schedule": "constant",
            "warmup_updates": 0,
            "adam_beta1": BETAS[0],
            "adam_beta2": BETAS[1],
        },
        # As seldom as TRL saves by default.
        "runtime": {"threads": job.threads, "concurrency": work.completions, "checkpoint_every": 500},
        "evaluation": {"every": MANY, "tasks": 1, "samples": 1},
        "stages": [{"kind": "rl", "name": "rl"}],
    }
    return resolve_text(tomlkit.dumps(sections), origin="benchmarks/against_trl/ours.py")


def engine_of(job: Job) -> Mapping[str, object]:
    """The deterministic mode, which is the default, where it can be had: in float32 on a CPU."""
    sizes = {"num_slots": job.workload.completions, "max_context_tokens": job.workload.context_tokens}
    if job.device == "cpu" and job.dtype == "float32":
        return sizes
    return {**sizes, "mode": "fast", "dtype": job.dtype, "device": job.device}


class Watch:
    """An observer that stamps steps when all of them is durable."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps

    def stage_started(self, report: StageStarted) -> None:
        self._stamps.begin()

    def step_finished(self, report: StepReport) -> None:
        counts = {
            "completions": report.num_episodes,
            "tokens": report.num_action_tokens,
            "quiet_groups": quiet_share(report),
            "collect_s": report.collect_s,
            "learn_s": report.learn_s,
        }
        self._stamps.mark(counts)

    def run_started(self, report: RunStarted) -> None: ...

    def evaluating(self, report: EvaluationProgress) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def warned(self, sentence: str) -> None:
        print(sentence, flush=True)


def quiet_share(report: StepReport) -> float:
    """Of the groups, those whose attempts were all paid alike."""
    shares = [m.value for m in report.metrics if m.name == "reward/zero_var_frac" and not m.labels]
    return float(shares[0] or 0.0) if shares else 0.0


def repeat(job: Job, number: int, lengths: list[int]) -> tuple[Mapping[str, float], tuple[float, float]]:
    """A run of its own: the means of its steps behind the first, and of their seconds; `lengths` grows.

    While a step is written, the next one is being sampled. So the loop is not held between steps, and what counts is
    from the end of the first step to that of a later one, behind which one more follows.
    """
    stamps, steps = Stamps(), job.workload.counted
    with tempfile.TemporaryDirectory(prefix="rollwright-bench-") as scratch:
        folder = Path(scratch)
        order = TrainOrder(
            resolved=recipe_of(job, folder, number), run_dir=folder / "run", source=None, is_rollouts_only=False
        )
        train_run(order, Watch(stamps))
        lengths += [int(str(length)) for (length,) in query(folder / "run", LENGTHS).rows]
    span = stamps.span(steps)
    counts = {name: total / steps for name, total in span.counts.items()}
    return counts, (span.wall_s / steps, span.cpu_s / steps)


def main() -> None:
    job = read_job()
    pacer = Pacer(
        {
            "rollwright": version("rollwright"),
            "torch": torch.__version__,
            "threads": job.threads,
            "device": job.device,
            "dtype": job.dtype,
        }
    )
    lengths: list[int] = []
    number, goes_on = 0, pacer.begin()
    while goes_on:
        goes_on = pacer.ended(*repeat(job, number, lengths))
        number += 1
    pacer.tell({"lengths": lengths})


if __name__ == "__main__":
    main()
