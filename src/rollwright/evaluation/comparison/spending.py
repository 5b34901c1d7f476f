"""What a run had spent when a step was done: the budgets at which checkpoints are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from rollwright.evidence import connect

__all__ = ["BUDGETS", "Budget", "Spending", "spending_at", "spending_of"]

Budget = Literal["updates", "episodes", "tokens", "calls", "clock"]
BUDGETS: tuple[Budget, ...] = ("updates", "episodes", "tokens", "calls", "clock")

_SPENT = """WITH sampled AS (
  SELECT step, count(*) AS episodes, sum(num_action_tokens) AS tokens, sum(num_turns) AS turns FROM (
    SELECT DISTINCT trajectory_id, step FROM receipts) JOIN trajectories USING (trajectory_id) GROUP BY step),
called AS (
  SELECT step, count(*) AS calls FROM (SELECT DISTINCT trajectory_id, step FROM receipts)
  JOIN tool_calls USING (trajectory_id) GROUP BY step),
updated AS (SELECT step, max(update) AS updates FROM receipts GROUP BY step),
timed AS (
  SELECT step, sum(value) AS seconds FROM metrics
  WHERE name IN ('time/collect', 'time/learn', 'time/publish', 'time/save') AND update = 0 AND len(map_keys(labels)) = 0
  GROUP BY step)
SELECT step, coalesce(updates, 0), coalesce(episodes, 0), coalesce(tokens, 0),
  coalesce(turns, 0) + coalesce(calls, 0), coalesce(seconds, 0)
FROM sampled FULL JOIN called USING (step) FULL JOIN updated USING (step) FULL JOIN timed USING (step) ORDER BY step"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Summed over all steps up to this one, those of demonstrations included."""

    step: int
    updates: int
    """Optimizer steps."""
    episodes: int
    """Trained on; what was filtered, expired or failed is not counted."""
    tokens: int
    """Action tokens of these episodes."""
    calls: int
    """Of the environment: turns and tool calls of these episodes."""
    clock: float
    """Seconds of the steps, without evaluations."""

    def of(self, budget: Budget) -> float:
        """The amount of one budget."""
        match budget:
            case "updates":
                return self.updates
            case "episodes":
                return self.episodes
            case "tokens":
                return self.tokens
            case "calls":
                return self.calls
            case "clock":
                return self.clock


def spending_of(run: Path) -> tuple[Spending, ...]:
    """What a run had spent after each of its steps, from its receipts and times; it may be running.

    Args:
        run: its folder.
    """
    with connect(run, verification="sizes") as connection:
        rows = cast("list[tuple[int, int, int, int, int, float]]", connection.execute(_SPENT).fetchall())
    found = [Spending(step=0, updates=0, episodes=0, tokens=0, calls=0, clock=0.0)]
    for step, updates, episodes, tokens, calls, seconds in rows:
        if step > 0:
            last = found[-1]
            found.append(
                Spending(
                    step=step,
                    updates=max(last.updates, updates),
                    episodes=last.episodes + episodes,
                    tokens=last.tokens + int(tokens),
                    calls=last.calls + int(calls),
                    clock=last.clock + seconds,
                )
            )
    return tuple(found)


def spending_at(spent: Sequence[Spending], step: int) -> Spending:
    """What had been spent when a step was done.

    Args:
        spent: of a run, by step, from `spending_of`.
        step: of a checkpoint.
    """
    return max((one for one in spent if one.step <= step), key=lambda one: one.step)
