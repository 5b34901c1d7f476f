"""Episodes of worlds, played by given turns through the driver."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.engines import PlayedEngine
from rollwright.environments import DemonstratedTurn
from rollwright.record import Environment, Submission, Task, ToolRequest, Trajectory, canonical_json
from rollwright.rendering import Renderer
from rollwright.rollout import Limits, submission_of
from tests.rollout.fakes import drive, spec_of

__all__ = ["Played", "play", "said", "turn"]


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of an episode."""

    trajectory: Trajectory
    submission: Submission

    @property
    def results(self) -> list[tuple[str, str]]:
        """Status and text of each call, in order."""
        rows = self.trajectory.tool_calls
        texts = [p.text for p in self.submission.passages if p.kind == "tool"]
        assert len(rows) == len(texts), (self.trajectory.terminal_reason, self.trajectory.failure_cause, rows, texts)
        return list(zip([row.status for row in rows], texts, strict=True))


def turn(tool: str, **arguments: str) -> DemonstratedTurn:
    """A turn with one call."""
    return DemonstratedTurn(text="", calls=(ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments)),))


def said(text: str) -> DemonstratedTurn:
    """A turn without a call."""
    return DemonstratedTurn(text=text)


def play(renderer: Renderer, environment: Environment, task: Task, turns: Sequence[DemonstratedTurn]) -> Played:
    """Play an episode to its end."""
    written = [renderer.encode_turn(one.text, [(call.tool, call.arguments) for call in one.calls]) for one in turns]
    spec = spec_of(
        Limits(turns=len(turns), turn_tokens=100_000, episode_tokens=1_000_000, context_tokens=1_000_000),
        task=task,
        purpose="demonstration",
        action_origin="demonstration",
    )
    trajectory = drive(renderer, environment, PlayedEngine(written), spec)
    return Played(trajectory=trajectory, submission=submission_of(trajectory, renderer))
