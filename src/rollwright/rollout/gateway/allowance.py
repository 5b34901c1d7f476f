"""What is left to an episode, and what a request may have of it."""

from dataclasses import dataclass

from rollwright.record import TerminalReason
from rollwright.rollout.gateway.asked import Ask
from rollwright.rollout.gateway.ending import Ending
from rollwright.rollout.gateway.errors import ApiError, too_long
from rollwright.rollout.gateway.exchange import Drawing
from rollwright.rollout.gateway.history import Prompt
from rollwright.rollout.spec import Limits

__all__ = ["Allowance", "Share"]

LONGEST_TOKEN = 64
"""Characters; a text that is longer than the context of such tokens is refused unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What each turn of a request may have."""

    max_tokens: int
    bound: TerminalReason | None
    """Which end it is when all of them are drawn; None: it is none."""


class Allowance:
    """Counts turns and tokens, those of turns in flight as if they were drawn already."""

    def __init__(self, limits: Limits, context_tokens: int, ending: Ending) -> None:
        self._limits = limits
        self._context_tokens = min(limits.context_tokens, context_tokens)
        self._ending = ending
        self.running: set[Drawing] = set()
        self.num_turns = 0
        """Told."""
        self.num_sampled = 0
        """Tokens of all turns, also of those that nobody was told."""
        self.refused_prompt: Prompt | None = None
        """The last one that did not fit."""

    def check_size(self, ask: Ask) -> None:
        """Refuse what cannot fit before anything of it is encoded.

        Raises:
            ApiError: 400.
        """
        size = sum(len(message.text) for message in ask.messages) + sum(map(len, ask.tools.values()))
        if size > self._context_tokens * LONGEST_TOKEN:
            self._ending.cut = TerminalReason.CONTEXT_LIMIT if self.num_turns else None
            raise too_long(size // LONGEST_TOKEN, self._context_tokens)

    def share(self, ask: Ask, prompt: Prompt) -> Share:
        """What each turn of a request may have.

        Raises:
            ApiError: 400 where the context is full; 429 while turns in flight hold what is left; 410 where nothing is
                left, which ends the episode.
        """
        length = len(prompt.token_ids)
        room = self._context_tokens - length
        if room <= 0:
            self._ending.cut, self.refused_prompt = TerminalReason.CONTEXT_LIMIT, prompt
            raise too_long(length, self._context_tokens)
        free = self._limits.turns - self.num_turns
        if free - len(self.running) < ask.num_answers:
            raise self._exhausted(TerminalReason.TURN_LIMIT, free - ask.num_answers)
        left = self._limits.episode_tokens - self.num_sampled
        own = (left - sum(drawing.max_tokens for drawing in self.running)) // ask.num_answers
        if own <= 0:
            raise self._exhausted(TerminalReason.TOKEN_LIMIT, left)
        return self._cut(ask, room, own)

    def _exhausted(self, reason: TerminalReason, left: int) -> ApiError:
        """Nothing is left: for good, or until those in flight are done."""
        if left >= 0 and self.running:
            what = reason.value.partition("_")[0]
            return ApiError(
                429, f"Requests in flight hold the {what}s that are left; try again.", code="rate_limit_exceeded"
            )
        self._ending.come(reason)
        return self._ending.refusal()

    def _cut(self, ask: Ask, room: int, left: int) -> Share:
        limits = self._limits
        own = min(room, left, limits.turn_tokens)
        if ask.max_tokens is not None and ask.max_tokens < own:
            return Share(max_tokens=ask.max_tokens, bound=None)
        if own == room:
            return Share(max_tokens=own, bound=TerminalReason.CONTEXT_LIMIT)
        is_cut = own == limits.turn_tokens < left and limits.cut_turn == "go_on"
        return Share(max_tokens=own, bound=None if is_cut else TerminalReason.TOKEN_LIMIT)
