"""Watches how often tools are used from step to step, and says so when a policy stops using them.

A policy that learns in several turns can fall back to one: it answers at once, or asks one tool whatever the question.
The watch knows what it has seen since the process began; a run that goes on begins a new one.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rollwright.record import ScoredTrajectory

__all__ = ["ToolUseWatch"]

_WINDOW = 5
"""Steps that are taken together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """Of one step."""

    calls: float
    """Of an episode, mean."""
    turns: float
    tools: Counter[str]


@dataclass(slots=True, eq=False)
class ToolUseWatch:
    """One run's tool use; each kind of collapse is said once, and again only after it has gone."""

    collapsed_at: float = 0.25
    """Calls of an episode, as a share of the most that there were, from which they have collapsed."""
    least_calls: float = 0.5
    """Most calls of an episode below which there was nothing to lose."""
    narrow_at: float = 0.95
    """Share of one tool, where it was once below half, from which the choice has collapsed."""
    _recent: deque[_Use] = field(default_factory=lambda: deque[_Use](maxlen=_WINDOW))
    _most_calls: float = 0.0
    _most_turns: float = 0.0
    _was_varied: bool = False
    _said: set[str] = field(default_factory=set[str])

    def see(self, step: int, members: Sequence[ScoredTrajectory]) -> tuple[str, ...]:
        """Take a step in.

        Args:
            step: its number.
            members: the episodes of its batch.

        Returns:
            What a person should know.
        """
        if not members:
            return ()
        tools = Counter(call.tool for one in members for call in one.trajectory.tool_calls)
        turns = sum(one.trajectory.num_turns for one in members) / len(members)
        self._recent.append(_Use(calls=tools.total() / len(members), turns=turns, tools=tools))
        if len(self._recent) < _WINDOW:
            return ()
        calls = sum(use.calls for use in self._recent) / _WINDOW
        turns = sum(use.turns for use in self._recent) / _WINDOW
        used = sum((use.tools for use in self._recent), Counter[str]())
        tool, count = used.most_common(1)[0] if used else ("", 0)
        share = count / used.total() if used else 0.0
        self._most_calls, self._most_turns = max(self._most_calls, calls), max(self._most_turns, turns)
        self._was_varied = self._was_varied or (bool(used) and share < 0.5)
        is_gone = self._most_calls >= self.least_calls and calls <= self.collapsed_at * self._most_calls
        over = f"step {step}: over the last {_WINDOW} steps"
        fewer = f"{calls:.2f} calls and {turns:.1f} turns an episode; there were {self._most_calls:.2f} and"
        return (
            *self._noted("calls", is_gone, f"tool use has collapsed at {over} {fewer} {self._most_turns:.1f}"),
            *self._noted(
                "choice",
                self._was_varied and share >= self.narrow_at,
                f"the choice of tools has collapsed at {over} {share:.0%} of {used.total()} calls are of {tool}",
            ),
        )

    def _noted(self, kind: str, is_so: bool, sentence: str) -> tuple[str, ...]:  # noqa: FBT001 - a finding, no switch
        if not is_so:
            self._said.discard(kind)
            return ()
        if kind in self._said:
            return ()
        self._said.add(kind)
        return (sentence,)
