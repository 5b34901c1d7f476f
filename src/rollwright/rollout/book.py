"""The segments of one episode as they come to be: contexts that only grow, and where everything said stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rollwright.record import Ids, Segment, TokenSpan, ids
from rollwright.rendering import Conversation, Rendered
from rollwright.rollout.sampling import SampledTurn
from rollwright.rollout.spec import EpisodeSpec

__all__ = ["Book", "Context", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """A segment, and where it begins in the tokens of its entry."""

    segment: int
    first_token: int


@dataclass(slots=True, eq=False)
class Context:
    """Tokens that only grow: what the next turn is sampled behind."""

    number: int
    actor: str
    policy: str
    conversation: Conversation
    places: dict[int, tuple[Place, ...]] = field(default_factory=dict[int, tuple[Place, ...]])
    """Entry of the conversation to the segments that hold it first; a rewritten context takes them along."""
    last: int | None = None
    parts: list[Ids] = field(default_factory=list[Ids])
    length: int = 0

    def token_ids(self) -> Ids:
        """All of it, as the engine is to see it."""
        if len(self.parts) > 1:
            self.parts = [ids(np.concatenate(self.parts))]
        return self.parts[0] if self.parts else ids([])

    def copy(self, number: int) -> "Context":
        """What stands here, to go on from: in this context by its own number, or in a branch by another one."""
        return replace(self, number=number, places=dict(self.places), parts=list(self.parts))


class Book:
    """Writes segments; numbers them and the contexts in the order of writing."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._num_contexts = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All that was written."""
        return tuple(self._segments)

    @property
    def next_segment(self) -> int:
        """The number that the next segment will have."""
        return len(self._segments)

    def open_context(self, actor: str, policy: str, conversation: Conversation) -> Context:
        """A new, empty context with the next free number."""
        return Context(number=self.number_context(), actor=actor, policy=policy, conversation=conversation)

    def number_context(self) -> int:
        """Take the next free number."""
        self._num_contexts += 1
        return self._num_contexts - 1

    def write_said(
        self,
        context: Context,
        rendered: Rendered,
        turn: int,
        *,
        num_known: int = 0,
        spawned_by: str | None = None,
        state_hash: str | None = None,
    ) -> None:
        """Write what the renderer gave.

        Args:
            context: that grows.
            rendered: pieces, up to and with the generation prompt.
            turn: that they open.
            num_known: entries of the conversation that stood before; pieces of these are copies.
            spawned_by: the call that opened the context.
            state_hash: after what is said here; stands on its last piece that is not the template's.
        """
        context.conversation = rendered.conversation
        pieces = rendered.pieces
        spoken = [at for at, piece in enumerate(pieces) if piece.origin != "template"]
        hashed = spoken[-1] if spoken else len(pieces) - 1
        for at, piece in enumerate(pieces):
            copied_from: int | None = None
            if piece.entry is not None and piece.entry < num_known:
                copied_from = _segment_at(context.places[piece.entry], piece.first_token or 0)
            segment = Segment(
                segment=self.next_segment,
                parent=context.last,
                context=context.number,
                spawned_by=spawned_by if context.last is None else None,
                start=context.length,
                origin=piece.origin,
                actor=context.actor,
                turn=turn,
                token_ids=piece.token_ids,
                copied_from=copied_from,
                call_id=piece.call_id,
                state_hash=state_hash if at == hashed else None,
            )
            self._add(context, segment)
            if piece.entry is not None and copied_from is None:
                context.places[piece.entry] = (Place(segment.segment, 0),)

    def write_turn(
        self,
        context: Context,
        turn: int,
        sampled: SampledTurn,
        spec: EpisodeSpec,
        spans: Sequence[TokenSpan],
        finish: str | None,
    ) -> None:
        """Write what a turn came to: a segment a version, with its part of the spans; the last one has the finish."""
        is_policy = spec.action_origin == "policy"
        places: list[Place] = []
        start = 0
        for at, run in enumerate(sampled.runs):
            end = start + len(run.token_ids)
            is_last = at == len(sampled.runs) - 1
            segment = Segment(
                segment=self.next_segment,
                parent=context.last,
                context=context.number,
                start=context.length,
                origin=spec.action_origin,
                actor=context.actor,
                turn=turn,
                token_ids=run.token_ids,
                behavior_logprobs=run.behavior_logprobs if is_policy else None,
                policy=context.policy if is_policy else None,
                policy_version=run.policy_version if is_policy else None,
                cache_version=run.cache_version if is_policy else None,
                sampling=spec.sampling if is_policy else None,
                spans=_part_of(spans, start, end),
                finish=finish if is_last else "swapped",
                tensors=run.tensors,
            )
            self._add(context, segment)
            places.append(Place(segment.segment, start))
            start = end
        context.places[len(context.conversation.entries)] = tuple(places)

    def write_replayed(self, context: Context, turn: int, segments: Sequence[Segment]) -> None:
        """Write the tokens of a turn that was taken elsewhere, as copies.

        Args:
            context: that grows.
            turn: that is opened behind them.
            segments: in which the turn was sampled.
        """
        places: list[Place] = []
        start = 0
        for source in segments:
            segment = Segment(
                segment=self.next_segment,
                parent=context.last,
                context=context.number,
                start=context.length,
                origin="replayed",
                actor=context.actor,
                turn=turn,
                token_ids=source.token_ids,
                copied_from=source.segment,
            )
            self._add(context, segment)
            places.append(Place(source.segment, start))
            start += source.num_tokens
        context.places[len(context.conversation.entries)] = tuple(places)

    def _add(self, context: Context, segment: Segment) -> None:
        self._segments.append(segment)
        context.last = segment.segment
        context.parts.append(segment.token_ids)
        context.length += segment.num_tokens


def _segment_at(places: Sequence[Place], token: int) -> int:
    return next(place.segment for place in reversed(places) if place.first_token <= token)


def _part_of(spans: Sequence[TokenSpan], start: int, end: int) -> tuple[TokenSpan, ...]:
    """The spans between two tokens of a turn, counted from the first of them."""
    return tuple(
        TokenSpan(kind=s.kind, token_start=max(s.token_start, start) - start, token_end=min(s.token_end, end) - start)
        for s in spans
        if s.token_start < end and s.token_end > start
    )
