"""How long the turns that are opened together may be: each gets its share of what the limits leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Engine, EnvironmentBrokenError, TerminalReason
from rollwright.rollout.endings import EpisodeEndedError
from rollwright.rollout.parking import History, Leg
from rollwright.rollout.sampling import SampledTurn
from rollwright.rollout.scene import Actor

__all__ = ["OpenTurn", "TurnOpener"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTurn:
    """A turn that is to be sampled, or taken from the past."""

    actor: Actor
    max_tokens: int
    """To be drawn; 0: the past has all of it."""
    bound: TerminalReason | None
    """Which end it is when `max_tokens` are drawn; None: the turn is cut, the episode goes on."""
    share: Literal["turn", "episode"]
    """Whose tokens run out with these."""
    drawn: SampledTurn | None
    """What the past has of it."""


class TurnOpener:
    """Opens turns within the limits of a leg."""

    def __init__(self, leg: Leg, history: History, engines: Mapping[str, Engine]) -> None:
        self._limits = leg.limits
        self._history = history
        self._engines = engines

    def open(self, actors: Sequence[Actor], num_sampled: int) -> list[OpenTurn]:
        """Give each turn its share of the tokens that are left.

        Args:
            actors: whose turns are open.
            num_sampled: tokens of the turns before.

        Raises:
            EpisodeEndedError: where the episode has no tokens left, or a context no room.
            EnvironmentBrokenError: for an actor whose policy no engine has.
        """
        drawn = [self._history.drawn(actor.turn) for actor in actors]
        known = [turn for turn in drawn if turn is not None]
        num_sharing = sum(t is None or self._history.goes_on(a.turn) for a, t in zip(actors, drawn, strict=True))
        spent = num_sampled + sum(turn.num_tokens for turn in known)
        left = (self._limits.episode_tokens - spent) // max(num_sharing, 1)
        if left <= 0 and not known:
            raise EpisodeEndedError(TerminalReason.TOKEN_LIMIT)
        return [self._open(actor, turn, left) for actor, turn in zip(actors, drawn, strict=True)]

    def _open(self, actor: Actor, drawn: SampledTurn | None, left: int) -> OpenTurn:
        if drawn is not None and not self._history.goes_on(actor.turn):
            return OpenTurn(actor=actor, max_tokens=0, bound=None, share="turn", drawn=drawn)
        limits, policy = self._limits, actor.context.policy
        turn_tokens = self._history.turn_tokens(actor.turn, limits.turn_tokens)
        if policy not in self._engines:
            raise EnvironmentBrokenError(f"its actor {actor.context.actor!r} needs policy {policy!r}: no engine has it")
        most = min(limits.context_tokens, self._engines[policy].capabilities.max_context_tokens)
        room = most - actor.context.length - (0 if drawn is None else drawn.num_tokens)
        if room <= 0 and drawn is None:
            raise EpisodeEndedError(TerminalReason.CONTEXT_LIMIT)
        bound: TerminalReason | None = TerminalReason.TOKEN_LIMIT
        if room < min(left, turn_tokens):
            bound = TerminalReason.CONTEXT_LIMIT
        elif turn_tokens < left and limits.cut_turn == "go_on":
            bound = None
        return OpenTurn(
            actor=actor,
            max_tokens=max(0, min(room, left, turn_tokens)),
            bound=bound,
            share="turn" if turn_tokens < left else "episode",
            drawn=drawn,
        )
