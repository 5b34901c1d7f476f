"""Small runs with gates and alarms: the settings, and the ways to end."""

from pathlib import Path

from rollwright.evidence import query
from rollwright.recipes.resolve import Resolved
from rollwright.recipes.runs import TrainOrder, resume_run, train_run
from rollwright.runtime.errors import RunPausedError
from tests.end_to_end.small import Listener, small_rl

COIN = 'verifier.parts=[{kind="custom", path="tests.end_to_end.gate_parts:coin"}]'
STEPS = 4
QUICK = (
    "rollout.max_turns=1",
    "rollout.max_turn_tokens=12",
    "rollout.max_episode_tokens=12",
    "evaluation.tasks=4",
    "runtime.keep_checkpoints=9",
)


def gated(*settings: str, gates: str = "", alarms: str = "") -> Resolved:
    """A small run of RL alone, evaluated in its middle and at its end, with these tables of gates and alarms."""
    tables = [f"{section}=[{text}]" for section, text in (("gates", gates), ("alarms", alarms)) if text]
    return small_rl(COIN, *QUICK, f"run.steps={STEPS}", f"evaluation.every={STEPS // 2}", *tables, *settings)


def began(path: Path, resolved: Resolved) -> RunPausedError | None:
    """Train until the end, or until an alarm pauses the run."""
    try:
        train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    except RunPausedError as error:
        return error
    return None


def went_on(path: Path, acknowledgment: str | None = None) -> RunPausedError | None:
    """Resume until the end, or until an alarm pauses the run or keeps it paused."""
    try:
        resume_run(path, Listener(), acknowledgment=acknowledgment)
    except RunPausedError as error:
        return error
    return None


def values(run: Path, name: str) -> list[float]:
    """A metric without further labels, step by step."""
    sql = (
        f"SELECT value FROM metrics WHERE name = '{name}' AND value IS NOT NULL "
        "AND cardinality(labels) = (labels['model'] IS NOT NULL)::INT ORDER BY step"
    )
    return [float(str(value)) for (value,) in query(run, sql).rows]
