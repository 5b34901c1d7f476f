"""An episode that a limit of the recipe cut, kept so that a further attempt goes on with it.

    cut ──► Parked: the trajectory (superseded), its turns as drawn, what the environment answered, a snapshot
                │
    Leg(past) ──┴► the same way again: turns from the record, contexts grow as they grew, under the new attempt's ids
                     environment with a snapshot:  put into its state, its answers come from the record
                     without:                      takes calls and actions anew, each answer is compared
                ──► the cut turn goes on behind its last token, under the weights that serve now

An answer that differs from the recorded one breaks the environment: an infrastructure failure, never a silent change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rollwright.record import (
    EnvironmentBrokenError,
    Observation,
    StepResult,
    TerminalReason,
    ToolCall,
    ToolResult,
    Trajectory,
)
from rollwright.rollout.sampling import SampledTurn
from rollwright.rollout.spec import EpisodeSpec, Limits

__all__ = ["History", "Leg", "PARKED_AT", "Parked", "REPLAYED_OTHERWISE"]

REPLAYED_OTHERWISE: Final = "differs from what was recorded in"
"""In the cause of an episode that could not go on, since its world did not replay."""

PARKED_AT = frozenset({TerminalReason.TOKEN_LIMIT, TerminalReason.TURN_LIMIT})
"""Limits that the recipe sets and another attempt can raise; a context and a clock have no more to give."""
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parked:
    """What a cut episode leaves for the attempt that goes on with it."""

    trajectory: Trajectory
    """As it is recorded: superseded, never trained."""
    limits: Limits
    """Of the attempt that goes on: a fresh allowance of what ran out here."""
    tools: Mapping[str, str]
    turns: Mapping[int, SampledTurn]
    """By number, as drawn."""
    cut: frozenset[int]
    """Turns that go on behind their last token."""
    results: Mapping[int, tuple[ToolResult, ...]]
    """Of the calls of a turn."""
    steps: tuple[StepResult, ...]
    """What the environment answered, its beginning first."""
    open_turns: tuple[Observation, ...]
    """Those that wait for their actor, with the states that they were opened in."""
    snapshot: bytes | None
    """Of the environment as it waits; None where it takes none."""
    is_interrupted: bool = False
    """It was superseded from outside: nothing ran out, so a turn that goes on has what it had left."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leg:
    """One attempt at an episode that may take several."""

    spec: EpisodeSpec
    past: Parked | None = None
    """What it goes on with; None where it begins at the task."""
    at_limit: Literal["end", "park"] = "end"
    """What tokens or turns that run out do to it."""
    when_superseded: Literal["end", "park"] = "end"
    """What an interruption by `superseded` does to it."""

    @property
    def limits(self) -> Limits:
        """Those that hold in this attempt."""
        return self.spec.limits if self.past is None else self.past.limits

    def further_limits(self, reason: TerminalReason, ran_out: Literal["turn", "episode"]) -> Limits:
        """Limits of the attempt that goes on.

        Args:
            reason: what cut this one.
            ran_out: whose tokens these were, for `token_limit`; every attempt gives a turn its tokens afresh.
        """
        asked, held = self.spec.limits, self.limits
        if reason is TerminalReason.TURN_LIMIT:
            return replace(held, turns=held.turns + asked.turns)
        if ran_out == "episode":
            return replace(held, episode_tokens=held.episode_tokens + asked.episode_tokens)
        return held


class History:
    """What an attempt has behind it: the past that it walks again, and what it added."""

    def __init__(self, leg: Leg) -> None:
        past, name = leg.past, leg.spec.trajectory_id
        self._past = past
        self._turns: dict[int, SampledTurn] = {}
        self._results: dict[int, tuple[ToolResult, ...]] = {}
        self._steps: list[StepResult] = []
        self._due_steps: Sequence[StepResult] = ()
        self._due_results: Mapping[int, tuple[ToolResult, ...]] = {}
        if past is not None:
            before = past.trajectory.trajectory_id
            self._due_steps = tuple(_renamed_step(step, before, name) for step in past.steps)
            self._due_results = {
                turn: tuple(replace(r, call_id=_renamed(r.call_id, before, name)) for r in results)
                for turn, results in past.results.items()
            }

    @property
    def snapshot(self) -> bytes | None:
        """To open the environment with."""
        return None if self._past is None else self._past.snapshot

    @property
    def turns(self) -> Mapping[int, SampledTurn]:
        """Taken in this attempt, the past's included."""
        return self._turns

    @property
    def results(self) -> Mapping[int, tuple[ToolResult, ...]]:
        """Of the calls of each turn."""
        return self._results

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """The environment's answers."""
        return tuple(self._steps)

    def check_tools(self, tools: Mapping[str, str]) -> None:
        """Compare the tools of the episode with the recorded ones.

        Raises:
            EnvironmentBrokenError: where they differ.
        """
        if self._past is not None and dict(self._past.tools) != dict(tools):
            raise self._differs("its tools", sorted(self._past.tools), sorted(tools))

    def drawn(self, turn: int) -> SampledTurn | None:
        """The turn as it was drawn in the past."""
        return None if self._past is None else self._past.turns.get(turn)

    def goes_on(self, turn: int) -> bool:
        """Whether the turn was cut, and more of it is to be drawn."""
        return self._past is not None and turn in self._past.cut

    def turn_tokens(self, turn: int, allowed: int) -> int:
        """Tokens that a turn may still draw: a fresh allowance, or what an interrupted one had left."""
        if self._past is None or not self._past.is_interrupted or not self.goes_on(turn):
            return allowed
        return max(0, allowed - self._past.turns[turn].num_tokens)

    def take_turn(self, turn: int, sampled: SampledTurn) -> None:
        """Note a turn, whole or as far as it went."""
        self._turns[turn] = sampled

    def begin(self, begun: StepResult) -> StepResult:
        """Take the environment's beginning.

        Returns:
            What the episode began with.

        Raises:
            EnvironmentBrokenError: where an environment from a snapshot waits for other turns or stands elsewhere.
        """
        if self._past is None or self.snapshot is None:
            return self.take_step(begun)
        last = self._past.open_turns[-1].actor
        due, found = _standing(self._past.open_turns, last), _standing(begun.observations, last)
        if due != found:
            raise self._differs("the state of its snapshot", due, found)
        return self._keep(self._due_steps[0])

    def recorded_calls(self, turn: int) -> tuple[Sequence[ToolCall], tuple[ToolResult, ...]] | None:
        """Rows and results of a turn's calls, where a snapshot holds what they did; None: they are to be run."""
        if self._past is None or self.snapshot is None or turn not in self._due_results:
            return None
        rows = [row for row in self._past.trajectory.tool_calls if row.turn == turn]
        return rows, self._due_results[turn]

    def take_results(self, turn: int, results: tuple[ToolResult, ...]) -> None:
        """Note the results of a turn's calls.

        Raises:
            EnvironmentBrokenError: where they were other ones in the past.
        """
        due = self._due_results.get(turn)
        if due is not None and _told(due) != _told(results):
            raise self._differs(f"the results of turn {turn}", _told(due), _told(results))
        self._results[turn] = results

    def recorded_step(self) -> StepResult | None:
        """The environment's next answer, where a snapshot holds what led to it; None: it is to be asked."""
        if self.snapshot is None or len(self._steps) >= len(self._due_steps):
            return None
        return self._keep(self._due_steps[len(self._steps)])

    def take_step(self, step: StepResult) -> StepResult:
        """Note an answer of the environment.

        Raises:
            EnvironmentBrokenError: where it was another one in the past.
        """
        place = len(self._steps)
        if place < len(self._due_steps) and step != self._due_steps[place]:
            raise self._differs(f"its answer to action {place}", self._due_steps[place], step)
        return self._keep(step)

    def _keep(self, step: StepResult) -> StepResult:
        self._steps.append(step)
        return step

    def _differs(self, what: str, due: object, found: object) -> EnvironmentBrokenError:
        assert self._past is not None, "only what was recorded can differ"
        return EnvironmentBrokenError(
            f"{what} {REPLAYED_OTHERWISE} {self._past.trajectory.trajectory_id}, so that the parked "
            f"episode cannot go on: recorded {_shown(due)}, now {_shown(found)}. An environment whose episodes are "
            "resumed replays exactly, or takes snapshots."
        )


def _renamed(call_id: str, before: str, name: str) -> str:
    return f"{name}{call_id.removeprefix(before)}" if call_id.startswith(f"{before}/") else call_id


def _renamed_step(step: StepResult, before: str, name: str) -> StepResult:
    return replace(
        step,
        observations=tuple(
            o if o.spawned_by is None else replace(o, spawned_by=_renamed(o.spawned_by, before, name))
            for o in step.observations
        ),
    )


def _standing(observations: Sequence[Observation], last: str) -> tuple[list[str], str | None]:
    """Who is waited for, and the state: that of the turn opened last, behind which nothing has happened."""
    return sorted(o.actor for o in observations), next((o.state_hash for o in observations if o.actor == last), None)


def _told(results: Sequence[ToolResult]) -> list[tuple[str, str, str]]:
    return [(r.call_id, r.status, r.text) for r in results]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
