"""Why an episode of somebody else's agent ends: a limit, its agent's end, a failure, or somebody outside."""

import asyncio

from rollwright.record import TerminalReason
from rollwright.rollout.endings import EpisodeEndedError, Timekeeper
from rollwright.rollout.gateway.errors import ApiError, ended
from rollwright.rollout.spec import Interruption

__all__ = ["Ending"]


class Ending:
    """Comes to one reason; the first that ends the episode stands."""

    def __init__(self, name: str, time: Timekeeper, interruption: Interruption) -> None:
        self._name = name
        self._time = time
        self._interruption = interruption
        self.has_come = asyncio.Event()
        """Set with the reason."""
        self.reason: TerminalReason | None = None
        self.cause: str | None = None
        self.cut: TerminalReason | None = None
        """The limit that cut the last turn, or that the last request ran into: the reason, if nothing follows."""

    def come(self, reason: TerminalReason, cause: str | None = None) -> None:
        """Take no more requests. Turns in flight have their tokens, and may still be told."""
        if self.reason is None:
            self.reason, self.cause = reason, cause
            self.has_come.set()

    def look(self) -> None:
        """Come, where the episode was interrupted or its time is over."""
        if self._interruption.reason is not None:
            self.come(self._interruption.reason, "the episode was ended from outside")
        elif self._time.remaining_s() <= 0:
            try:
                self._time.end("the episode")
            except EpisodeEndedError as error:
                self.come(error.reason, error.cause)

    def check(self) -> None:
        """Refuse a request behind the end.

        Raises:
            ApiError: 410.
        """
        self.look()
        if self.reason is not None:
            raise self.refusal()

    def refusal(self) -> ApiError:
        """What a request behind the end is told."""
        return ended(self._name, str(self.reason or "its agent has ended"))

    def settle(self, failure: str | None, blame: TerminalReason) -> None:
        """The agent has ended behind a turn: make a reason of it, where there is none yet.

        Args:
            failure: how it failed; None: it did not.
            blame: what a failure means.
        """
        self.look()
        if self.cut is not None:
            self.come(self.cut, failure)
        elif failure is not None:
            self.come(blame, failure)
        self.come(TerminalReason.MODEL_END)

    def settle_without_turn(self, failure: str | None, refusal: str | None) -> None:
        """The agent has ended, and took no turn: a limit is no reason then, but for a first prompt that did not fit.

        Args:
            failure: how it failed; None: it did not.
            refusal: what its last request was refused with; None: there was none.
        """
        self.look()
        if self.reason is not None and not self.reason.is_trainable:
            return
        if self.cut is not None:
            self.reason, self.cause = self.cut, failure
            return
        why = "" if refusal is None else f"; its last request was refused: {refusal}"
        self.reason = TerminalReason.INFRASTRUCTURE_FAILURE
        self.cause = f"the agent took no turn: {failure or 'it ended'}{why}"
