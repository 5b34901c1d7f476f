"""What a verifier is shown of a trajectory: text of tokens, live or from a stored run."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rollwright.record import Passage, Segment, Submission, Trajectory, ids
from rollwright.rendering import Renderer

__all__ = ["submission_of"]

KIND: dict[str, Literal["tool", "environment", "user"]] = {
    "task": "user",
    "user": "user",
    "tool": "tool",
    "environment": "environment",
}


def submission_of(trajectory: Trajectory, renderer: Renderer) -> Submission:
    """Read a trajectory again as text.

    Args:
        trajectory: finished.
        renderer: of the tokenizer that its tokens are of.

    Returns:
        Passages in the order in which they came to be. A turn gives its reasoning and its visible text, calls included,
        as two passages; copies of history and what the template writes give none.
    """
    passages: list[Passage] = []
    turn: list[Segment] = []

    def close() -> None:
        if turn:
            passages.extend(_turn_passages(turn, renderer))
            turn.clear()

    for segment in trajectory.segments:
        is_turn = segment.origin in ("policy", "demonstration") or (
            segment.origin == "replayed" and segment.copied_from is None
        )
        if turn and not (is_turn and (segment.actor, segment.turn) == (turn[0].actor, turn[0].turn)):
            close()
        if is_turn:
            turn.append(segment)
        elif segment.origin in KIND and segment.copied_from is None:
            text = renderer.decode(segment.token_ids)
            passages.append(Passage(actor=segment.actor, kind=KIND[segment.origin], text=text))
    close()
    return Submission(
        trajectory_id=trajectory.trajectory_id,
        task=trajectory.task,
        terminal_reason=str(trajectory.terminal_reason),
        passages=tuple(passages),
        artifacts=trajectory.artifacts,
    )


def _turn_passages(segments: Sequence[Segment], renderer: Renderer) -> list[Passage]:
    actor = segments[0].actor
    parsed = renderer.parse(ids(np.concatenate([segment.token_ids for segment in segments])))
    said = Passage(actor=actor, kind="policy", text=parsed.visible)
    if parsed.reasoning is None:
        return [said]
    return [Passage(actor=actor, kind="reasoning", text=parsed.reasoning), said]
