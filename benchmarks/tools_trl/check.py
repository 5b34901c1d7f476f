"""Whether both sides do the same work: TRL's episodes, lived again through rollwright's renderer and calculator.

Every token that TRL put into its sequences is compared with what rollwright would have put there: prompts, and what the
tool says between two turns. Calls and rewards must be read alike. And the policy that both begin with must succeed, and
speak, equally often on both sides, within what chance allows.
"""

import asyncio
import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.paired import ROOT
from benchmarks.tools_trl.job import Job, pace_job, read_tasks
from benchmarks.tools_trl.ours import train
from benchmarks.tools_trl.plan import PLAN, peer_python
from benchmarks.tools_trl.prepare import prepare_tasks, recipe_of
from rollwright.engines import ScriptedEngine
from rollwright.learner.models import load_causal_lm
from rollwright.recipes.build.session import lay_foundation, make_episodes
from rollwright.recipes.build.world import build_world
from rollwright.record import GenerationRequest, ScoredTrajectory, Task, Trajectory, trajectory_id_of
from rollwright.runtime.parts import Attempt
from rollwright.tasks import payload_of

__all__ = ["Agreement", "check"]

LARGEST_Z = 3.5
LARGEST_SHARE_READ_OTHERWISE = 0.01


@dataclass(frozen=True)
class Agreement:
    """What was compared, and what was found."""

    episodes: int
    prompts_equal: int
    sequences_equal: int
    rewards_equal: int
    success: tuple[float, float]
    """Of rollwright and of TRL, at the start."""
    success_z: float
    tokens: tuple[float, float]
    """Sampled in an episode."""
    tokens_z: float

    @property
    def faults(self) -> list[str]:
        found: list[str] = []
        if self.prompts_equal < self.episodes:
            found.append(f"{self.episodes - self.prompts_equal} prompts differ in their tokens")
        for what, equal in (("sequences", self.sequences_equal), ("rewards", self.rewards_equal)):
            if self.episodes - equal > LARGEST_SHARE_READ_OTHERWISE * self.episodes:
                found.append(f"{self.episodes - equal} of {self.episodes} {what} differ")
        for what, z in (("success", self.success_z), ("sampled tokens", self.tokens_z)):
            if abs(z) > LARGEST_Z:
                found.append(f"{what} at the start differ by {z:.1f} standard errors")
        return found


def check(model: str) -> Agreement:
    """Sample on both sides, and live TRL's episodes again."""
    job = pace_job(model, 0).looking()
    prepare_tasks(job)
    rows = _sampled_by_peer(model)
    lived = asyncio.run(_lived_again(job, rows))
    with tempfile.TemporaryDirectory(prefix="rollwright-bench-") as scratch:
        counts = train(job, Path(scratch) / "run").counts
    size = PLAN["episodes"]["batch_size"]
    theirs = [rows[at : at + size] for at in range(0, len(rows), size)]
    tokens = {one.trajectory.trajectory_id: one.trajectory.num_action_tokens for one in lived}
    wholes = [_whole(one.trajectory) for one in lived]
    spoken = [tokens[_name(n)] for n in range(len(rows))]
    their_tokens = [statistics.fmean(spoken[at : at + size]) for at in range(0, len(rows), size)]
    our_tokens = [one["tokens"] / one["episodes"] for one in counts]
    our_success = [one["successes"] / one["episodes"] for one in counts]
    their_success = [statistics.fmean(row["reward"] for row in some) for some in theirs]
    return Agreement(
        episodes=len(rows),
        prompts_equal=sum(w[: len(r["prompt_ids"])] == r["prompt_ids"] for w, r in zip(wholes, rows, strict=True)),
        sequences_equal=sum(w == r["prompt_ids"] + r["ids"] for w, r in zip(wholes, rows, strict=True)),
        rewards_equal=sum(one.outcome == row["reward"] for one, row in zip(lived, rows, strict=True)),
        success=(statistics.fmean(our_success), statistics.fmean(their_success)),
        success_z=_z(our_success, their_success),
        tokens=(statistics.fmean(our_tokens), statistics.fmean(their_tokens)),
        tokens_z=_z(our_tokens, their_tokens),
    )


def _sampled_by_peer(model: str) -> list[dict[str, Any]]:
    command = [peer_python(), "-m", "benchmarks.tools_trl.peer", "look", model]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"TRL's side ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _lived_again(job: Job, rows: Sequence[Mapping[str, Any]]) -> list[ScoredTrajectory]:
    """TRL's turns through rollwright's driver, in order; what it puts between them is its own."""
    recipe = recipe_of(job).recipe
    world = build_world(recipe)
    folder = Path(job.model)
    known = {t.task_id: t for stratum in world.mixture.strata for t in stratum.train}
    tasks = {payload_of(t).messages[0].text: t for t in (known[row["task_id"]] for row in read_tasks(job))}
    sessions = {_name(number): row for number, row in enumerate(rows)}

    def reply(request: GenerationRequest) -> list[int]:
        row = sessions[request.session.partition("/")[0]]
        return (row["prompt_ids"] + row["ids"])[len(request.token_ids) :]

    foundation = await asyncio.to_thread(lay_foundation, recipe, world, folder, lambda: load_causal_lm(folder))
    engine = ScriptedEngine(reply, max_context_tokens=PLAN["warm_start"]["max_context_tokens"])
    episodes = replace(make_episodes(foundation, engine), engine=engine)
    lived: list[Trajectory] = []
    for number, row in enumerate(rows):
        one = await episodes.train(_attempt(number, tasks[row["question"]]))
        assert isinstance(one, Trajectory)
        lived.append(one)
    return [scored for one in lived for scored in await episodes.score([one])]


def _attempt(number: int, task: Task) -> Attempt:
    return Attempt(purpose="train", stage="rl", group_id=number, slot=0, attempt=0, task=task)


def _name(number: int) -> str:
    return trajectory_id_of("train", number, 0, 0)


def _whole(trajectory: Trajectory) -> list[int]:
    return [int(i) for segment in trajectory.segments for i in segment.token_ids]


def _z(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Of the mean of paired differences: a batch of each side is of the same tasks."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    return statistics.fmean(differences) / (statistics.stdev(differences) / len(differences) ** 0.5)
