"""Searching in tags: `<search>` asks, `<information>` answers, `<answer>` ends (Search-R1: arXiv:2503.09516).

One thing a turn: of several closed tags in it the first counts. A turn with neither is told so and costs one of the
turns, as a search does.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import cast

from rollwright.environments.call_rules import ACTOR
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.passages import PassageIndex, passages_text
from rollwright.environments.tools import clean_text, cut_text
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    Observation,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import TaskError, payload_of, read_json

__all__ = ["TAG_INSTRUCTION", "SearchLimits", "TagSearchEnvironment"]

TAG_INSTRUCTION = (
    "Search with <search> query </search>; what is found stands between <information> and </information>. "
    "Give the answer alone as <answer> answer </answer>."
)
_ACT = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_BEHAVIOR = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """What one episode may ask."""

    searches: int = 4
    """Later ones are told that none are left."""
    information_characters: int = 1200


@dataclass(slots=True, eq=False)
class _Asked:
    """All that an episode remembers."""

    queries: list[str] = field(default_factory=list[str])
    turns: int = 0
    has_ended: bool = False


class TagSearchEnvironment:
    """Search by tags in the text of a turn."""

    def __init__(
        self,
        index: PassageIndex,
        *,
        limits: SearchLimits | None = None,
        instruction: str = TAG_INSTRUCTION,
        demonstrate: DemonstrateFn | None = None,
    ) -> None:
        self._index = index
        self._limits = limits or SearchLimits()
        self._instruction = instruction
        self._demonstrate = demonstrate
        limited = [self._limits.searches, self._limits.information_characters]
        self._revision = digest([_BEHAVIOR, index.sha256, limited, instruction])[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return "tag_search"

    @property
    def revision(self) -> str:
        """A digest of index, limits and instruction."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def limits(self) -> Mapping[str, float]:
        """How many searches an episode has, and how much of what is found is shown."""
        return MappingProxyType(asdict(self._limits))

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where this environment was given nothing to demonstrate with.
        """
        if self._demonstrate is None:
            raise EnvironmentSetupError("environment tag_search has no demonstrations; leave the supervised stage out")
        return self._demonstrate(task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["TagSearchEpisode"]:
        """Open a single-use episode; nothing of it is shared with another."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["TagSearchEpisode"]:
        try:
            asked = payload_of(task).messages
        except TaskError as error:
            raise EnvironmentBrokenError(str(error)) from error
        *before, question = asked
        text = f"{self._instruction}\n{question.text}" if self._instruction else question.text
        opening = (*before, Message(role="user", text=text))
        state = _Asked() if snapshot is None else _restored(snapshot, task, seed)
        yield TagSearchEpisode(self._index, self._limits, opening, state, (task.task_id, seed))


class TagSearchEpisode:
    """One episode; see `record.Episode`."""

    def __init__(
        self,
        index: PassageIndex,
        limits: SearchLimits,
        opening: tuple[Message, ...],
        state: _Asked,
        identity: tuple[str, int],
    ) -> None:
        self._index = index
        self._limits = limits
        self._opening = opening
        self._state = state
        self._identity = identity

    @property
    def tools(self) -> Mapping[str, str]:
        """None: searches are text."""
        return MappingProxyType({})

    async def begin(self) -> StepResult:
        """The question; an episode from a snapshot goes on with an open turn and no new message."""
        return self._turn(self._opening if not self._state.turns else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        """There are no tools."""
        text = "error: there are no tools; write <search> query </search>"
        return ToolResult(call_id=request.call_id, status="invalid_call", text=text)

    async def step(self, action: Action) -> StepResult:
        """Search, end, or say what would have been possible."""
        if self._state.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._state.turns += 1
        found = _ACT.search(action.text)
        if found is None:
            said = "neither a search nor an answer; write <search> query </search> or <answer> answer </answer>"
            return self._turn((Message(role="user", text=said),))
        if found[1] == "answer":
            self._state.has_ended = True
            return StepResult(observations=())
        if len(self._state.queries) >= self._limits.searches:
            return self._informed("no searches left; answer")
        self._state.queries.append(found[2].strip())
        return self._informed(passages_text(self._index.search(found[2])))

    async def artifacts(self) -> Mapping[str, bytes]:
        """The queries."""
        return {"searches.json": canonical_json(self._state.queries).encode()}

    async def snapshot(self) -> bytes:
        """What was asked, as canonical JSON."""
        task_id, seed = self._identity
        state = self._state
        saved = {"task_id": task_id, "seed": seed, "queries": state.queries, "turns": state.turns}
        return canonical_json({**saved, "has_ended": state.has_ended}).encode()

    def _informed(self, text: str) -> StepResult:
        shown = cut_text(clean_text(text), self._limits.information_characters)
        return self._turn((Message(role="user", text=f"<information>{shown}</information>"),))

    def _turn(self, messages: tuple[Message, ...]) -> StepResult:
        """What was read is the state: the same queries in the same order."""
        key = digest([self._identity[0], self._index.sha256, self._state.queries])
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=key),))


def _restored(snapshot: bytes, task: Task, seed: int) -> _Asked:
    """Read a state again.

    Raises:
        EnvironmentBrokenError: where it is none of this task and seed.
    """
    try:
        loaded = cast("Mapping[str, object]", read_json(snapshot.decode()))
        if loaded["task_id"] != task.task_id or loaded["seed"] != seed:
            raise ValueError(f"it is of task {loaded['task_id']} and seed {loaded['seed']}")
        queries, turns = list(cast("Sequence[str]", loaded["queries"])), cast("int", loaded["turns"])
        return _Asked(queries=queries, turns=turns, has_ended=cast("bool", loaded["has_ended"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentBrokenError(f"the snapshot does not fit task {task.task_id}: {error}") from error
