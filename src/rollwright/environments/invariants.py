"""Rules that no call may break: a registry of invariants stands between the policy and an episode's tools.

policy ──call──► invariants ──kept──► the episode's own tool
                     └──broken──► status `refused`, with the rule; counted, and left as an artifact
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.limits import limits_of
from rollwright.record import (
    Action,
    Environment,
    EnvironmentBrokenError,
    Episode,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)

__all__ = ["VIOLATIONS", "GuardedEnvironment", "Invariant", "Moment"]

VIOLATIONS = "violations.json"
"""The artifact: a list of {invariant, tool, arguments}; a verifier gates on its being empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What an invariant sees: a call that is asked, and what was called before it in the episode."""

    task: Task
    tool: str
    arguments: Mapping[str, object]
    """Empty where they are no JSON object; the tool answers that."""
    done: tuple[ToolRequest, ...]
    """Calls that went through, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A rule with its name."""

    name: str
    says: str
    """What the policy reads when it breaks the rule."""
    holds: Callable[[Moment], bool]
    """Of the moment alone."""
    revision: str = "1"


class GuardedEnvironment:
    """An environment in which calls that break an invariant never reach a tool."""

    def __init__(self, environment: Environment, invariants: Sequence[Invariant]) -> None:
        """Register the invariants.

        Raises:
            EnvironmentSetupError: where two have one name.
        """
        names = [invariant.name for invariant in invariants]
        if len(set(names)) != len(names):
            raise EnvironmentSetupError(f"two invariants have one name: {sorted(names)}")
        self._environment = environment
        self._invariants = tuple(invariants)

    @property
    def name(self) -> str:
        """Of the environment inside."""
        return self._environment.name

    @property
    def revision(self) -> str:
        """A digest of the environment inside and of the rules."""
        rules = [[rule.name, rule.says, rule.revision] for rule in self._invariants]
        return digest([self._environment.revision, rules])[:16]

    @property
    def actors(self) -> Mapping[str, str]:
        """Of the environment inside."""
        return self._environment.actors

    @property
    def limits(self) -> Mapping[str, float]:
        """Of the environment inside, but for `calls`: what a rule refuses is not counted there."""
        inside = limits_of(self._environment)
        return MappingProxyType({name: value for name, value in inside.items() if name != "calls"})

    @property
    def invariants(self) -> Mapping[str, str]:
        """The registry: name to what it says."""
        return MappingProxyType({rule.name: rule.says for rule in self._invariants})

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["GuardedEpisode"]:
        """Open an episode of the environment inside, guarded."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["GuardedEpisode"]:
        inner: bytes | None = None
        done: list[ToolRequest] = []
        violations: list[dict[str, str]] = []
        if snapshot is not None:
            inner, done, violations = _unpacked(snapshot)
        async with self._environment.open(task, seed=seed, snapshot=inner) as episode:
            yield GuardedEpisode(episode, task, self._invariants, done, violations)


class GuardedEpisode:
    """One episode; see `record.Episode`."""

    def __init__(
        self,
        episode: Episode,
        task: Task,
        invariants: tuple[Invariant, ...],
        done: list[ToolRequest],
        violations: list[dict[str, str]],
    ) -> None:
        self._episode = episode
        self._task = task
        self._invariants = invariants
        self._done = done
        self._violations = violations

    @property
    def tools(self) -> Mapping[str, str]:
        """Of the episode inside."""
        return self._episode.tools

    async def begin(self) -> StepResult:
        """Of the episode inside."""
        return await self._episode.begin()

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run a call that breaks no invariant; one that does is refused, and counted."""
        moment = Moment(task=self._task, tool=request.tool, arguments=_read(request.arguments), done=tuple(self._done))
        broken = next((rule for rule in self._invariants if not rule.holds(moment)), None)
        if broken is not None:
            self._violations.append(
                {"invariant": broken.name, "tool": request.tool, "arguments": request.arguments[:1000]}
            )
            return ToolResult(
                call_id=request.call_id, status="refused", text=f"error: refused by {broken.name}: {broken.says}"
            )
        result = await self._episode.call(request)
        self._done.append(request)
        return result

    async def step(self, action: Action) -> StepResult:
        """Of the episode inside."""
        return await self._episode.step(action)

    async def artifacts(self) -> Mapping[str, bytes]:
        """What the episode inside leaves, and the violations."""
        return {**await self._episode.artifacts(), VIOLATIONS: canonical_json(self._violations).encode()}

    async def snapshot(self) -> bytes:
        """Of the episode inside, with what was done and refused."""
        inner = await self._episode.snapshot()
        done = [[one.call_id, one.tool, one.arguments] for one in self._done]
        return canonical_json({"inner": inner.hex(), "done": done, "violations": self._violations}).encode()


def _read(arguments: str) -> Mapping[str, object]:
    try:
        loaded: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return dict(cast("Mapping[str, object]", loaded)) if isinstance(loaded, dict) else {}


def _unpacked(snapshot: bytes) -> tuple[bytes, list[ToolRequest], list[dict[str, str]]]:
    try:
        kept = cast("Mapping[str, object]", json.loads(snapshot))
        done = [
            ToolRequest(call_id=call_id, tool=tool, arguments=arguments)
            for call_id, tool, arguments in cast("Sequence[tuple[str, str, str]]", kept["done"])
        ]
        return bytes.fromhex(str(kept["inner"])), done, list(cast("Sequence[dict[str, str]]", kept["violations"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentBrokenError(f"the snapshot does not fit: {error}") from error
