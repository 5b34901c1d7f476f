"""Turns, read again by the renderer: the parts that their tokens are said to be, and how they ended."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from rollwright.evidence import Finding
from rollwright.record import ScoredTrajectory, Segment, ids
from rollwright.rendering import Renderer

__all__ = ["turn_findings"]


def turn_findings(members: Sequence[ScoredTrajectory], renderer: Renderer) -> Iterator[Finding]:
    """Where a turn's spans or its finish are not what its tokens say.

    Args:
        members: with turns of the policy or of demonstrations.
        renderer: of the run's tokenizer.
    """
    for member in members:
        turns = [s for s in member.trajectory.segments if s.origin in ("policy", "demonstration")]
        for _, segments in groupby(turns, key=lambda s: (s.actor, s.turn, s.context)):
            yield from _turn(member.trajectory_id, list(segments), renderer)


def _turn(name: str, segments: Sequence[Segment], renderer: Renderer) -> Iterator[Finding]:
    tokens = np.concatenate([segment.token_ids for segment in segments])
    last = segments[-1]
    if not len(tokens) or last.finish in ("aborted", "swapped", None):
        return
    parsed = renderer.parse(ids(tokens))
    due = ["" for _ in tokens]
    for span in parsed.spans:
        due[span.token_start : span.token_end] = [span.kind] * (span.token_end - span.token_start)
    said = [kind for segment in segments for kind in _kinds(segment)]
    for place, (left, right) in enumerate(zip(due, said, strict=True)):
        if left != right and all(segment.spans is not None for segment in segments):
            yield _finding(
                *_place(segments, place), name=name, text=f"its span is {right or 'none'}", due=left or "none"
            )
            break
    ends = {
        "stop_token": parsed.is_stopped,
        "tool_call": bool(parsed.parsed_calls),
        "length": not parsed.is_stopped,
    }
    if not ends.get(last.finish, True):
        how = "stops" if parsed.is_stopped else "does not stop"
        calls = "with a call" if parsed.parsed_calls else "without a call"
        yield Finding(
            place=f"segments {name} {last.segment}",
            text=f"finish is {last.finish}, and its turn {how} {calls}",
            expected="the end that its tokens have",
            concern="recipe",
        )


def _kinds(segment: Segment) -> list[str]:
    kinds = ["" for _ in range(segment.num_tokens)]
    for span in segment.spans or ():
        kinds[span.token_start : span.token_end] = [span.kind] * (span.token_end - span.token_start)
    return kinds[: segment.num_tokens]


def _place(segments: Sequence[Segment], place: int) -> tuple[int, int]:
    """The segment that a token of the turn stands in, and its index there."""
    for segment in segments:
        if place < segment.num_tokens:
            return segment.segment, place
        place -= segment.num_tokens
    raise AssertionError("the place is one of the turn's")


def _finding(segment: int, index: int, *, name: str, text: str, due: str) -> Finding:
    expected = f"{due}, as the turn reads"
    return Finding(place=f"{name}/{segment}/{index}", text=text, expected=expected, concern="recipe")
