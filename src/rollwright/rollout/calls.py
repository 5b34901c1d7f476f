"""The tool calls of an episode: asked in order, answered within limits, each with a row.

Sequential calls run one after the other; parallel ones in one TaskGroup, with the results in the order of asking. Each
waits on the environment for at most `call_s`.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, cast

from rollwright.record import EnvironmentBrokenError, Episode, ToolCall, ToolRequest, ToolResult, digest
from rollwright.rendering import CallSite, MalformedCall, ParsedCall
from rollwright.rollout.borders import describe, is_cancelled, read_result
from rollwright.rollout.clock import Clock
from rollwright.rollout.spec import Limits

__all__ = ["CallBook", "CallPlace", "StoredResult", "cut_middle", "stored_result"]

CallStatus = Literal["ok", "tool_error", "invalid_call", "timeout", "limit", "refused"]
STATUSES = frozenset({"ok", "tool_error", "invalid_call", "timeout", "limit", "refused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where calls were asked."""

    segment: int
    turn: int


class CallBook:
    """Runs calls and keeps their rows."""

    def __init__(self, trajectory_id: str, limits: Limits, clock: Clock, environment_revision: str) -> None:
        self._trajectory_id = trajectory_id
        self._limits = limits
        self._clock = clock
        self._environment_revision = environment_revision
        self._rows: list[ToolCall] = []
        self.has_timed_out = False
        """True once a tool's time limit fired."""

    @property
    def rows(self) -> tuple[ToolCall, ...]:
        """Of the table, in the order of asking."""
        return tuple(self._rows)

    async def run(
        self, episode: Episode, sites: Sequence[CallSite], place: CallPlace, remaining_s: float
    ) -> tuple[ToolResult, ...]:
        """Run the calls of a turn.

        Args:
            episode: that has the tools.
            sites: as parsed, malformed ones included: these get a row, and their answer from the environment.
            place: of the turn.
            remaining_s: of the episode.

        Returns:
            The results of the calls that could be read, in the order of asking.
        """
        first = len(self._rows)
        asked = [
            _Asked(call_id=f"{self._trajectory_id}/c{first + at}", number=first + at, site=site, place=place)
            for at, site in enumerate(sites)
        ]
        if self._limits.call_order == "sequential":
            answers = [await self._answer(episode, one, remaining_s) for one in asked]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._answer(episode, one, remaining_s), name=one.call_id) for one in asked]
            answers = [task.result() for task in tasks]
        self._rows.extend(answer.row for answer in answers)
        broken = next((answer.broken for answer in answers if answer.broken is not None), None)
        if broken is not None:
            raise broken
        return tuple(answer.result for answer in answers if answer.result is not None)

    def carry(self, rows: Sequence[ToolCall]) -> None:
        """Take over a turn's rows from the attempt that this one goes on with; what they cost was paid there."""
        first = len(self._rows)
        self._rows += [
            replace(row, call_id=f"{self._trajectory_id}/c{first + at}", answered_in=None, cost=None)
            for at, row in enumerate(rows)
        ]

    def answer_in(self, call_id: str, segment: int) -> None:
        """Note where a result was shown."""
        at = int(call_id.rsplit("/c", 1)[1])
        self._rows[at] = replace(self._rows[at], answered_in=segment)

    def answer_malformed_in(self, turn: int, segment: int) -> None:
        """Note where the environment spoke after a turn with calls that could not be read."""
        for at, row in enumerate(self._rows):
            if row.turn == turn and row.tool == "" and row.answered_in is None:
                self._rows[at] = replace(row, answered_in=segment)

    async def _answer(self, episode: Episode, asked: "_Asked", remaining_s: float) -> "_Answer":
        """One call, settled: what the environment raises is a value here, so that no call harms its neighbours."""
        started_at, started = self._clock.now(), self._clock.monotonic()
        site = asked.site
        result: ToolResult | None = None
        broken: Exception | None = None
        if isinstance(site, ParsedCall):
            try:
                result = await self._result(episode, asked, site, remaining_s)
            except Exception as error:  # noqa: BLE001 - raised again when its neighbours have settled
                broken = error
            except BaseException as error:  # noqa: BLE001 - code from outside may ask for more than the end of its call
                if is_cancelled(error):
                    raise
                broken = EnvironmentBrokenError(f"tool {site.tool} gave up: {describe(error)}")
        row = ToolCall(
            call_id=asked.call_id,
            asked_in=asked.place.segment,
            answered_in=None,
            turn=asked.place.turn,
            tool=site.tool if isinstance(site, ParsedCall) else "",
            tool_revision=self._revision_of(episode, site),
            arguments=site.arguments if isinstance(site, ParsedCall) else cut_middle(site.text, self._limits),
            status=_status_of(result, site),
            latency_s=self._clock.monotonic() - started,
            started_at=started_at,
            cost=None if result is None else result.cost,
            **stored_result(_text_of(site, result, broken), self._limits),
        )
        return _Answer(row=row, result=result, broken=broken)

    async def _result(self, episode: Episode, asked: "_Asked", call: ParsedCall, remaining_s: float) -> ToolResult:
        limits = self._limits
        if asked.number >= limits.calls:
            return ToolResult(
                call_id=asked.call_id, status="limit", text=f"error: no calls left, {limits.calls} are allowed"
            )
        if call.tool not in episode.tools:
            known = ", ".join(episode.tools) or "none"
            return ToolResult(
                call_id=asked.call_id,
                status="invalid_call",
                text=f"error: unknown tool {call.tool[:40]!r}; available: {known}",
            )
        allowed_s = min(limits.call_s, max(remaining_s, 0.0))
        timeout = asyncio.timeout(allowed_s)
        try:
            async with timeout:
                request = ToolRequest(call_id=asked.call_id, tool=call.tool, arguments=call.arguments)
                result = read_result(await episode.call(request))
        except TimeoutError:
            if not timeout.expired():
                raise
            self.has_timed_out = True
            return ToolResult(
                call_id=asked.call_id, status="timeout", text=f"error: no answer within {allowed_s:g} seconds"
            )
        if result.status not in STATUSES or result.call_id != asked.call_id:
            raise EnvironmentBrokenError(
                f"tool {call.tool} answered call {result.call_id!r} with status {result.status!r}; asked was "
                f"{asked.call_id!r}, allowed are {', '.join(sorted(STATUSES))}"
            )
        return replace(result, text=cut_middle(result.text, limits))

    def _revision_of(self, episode: Episode, site: CallSite) -> str:
        schema = episode.tools.get(site.tool) if isinstance(site, ParsedCall) else None
        return "" if schema is None else digest([self._environment_revision, schema])[:16]


def cut_middle(text: str, limits: Limits) -> str:
    """At most so many characters, head and tail, with a mark that says what was cut."""
    limit = limits.result_characters
    if len(text) <= limit:
        return text
    head = (limit + 1) // 2
    tail = text[len(text) - (limit - head) :] if limit > head else ""
    return f"{text[:head]}[... {len(text) - limit} of {len(text)} characters cut ...]{tail}"


class StoredResult(TypedDict):
    """The columns of a call's result."""

    result: str | None
    result_sha256: str
    result_bytes: int
    retention: Literal["inline", "dropped"]


def stored_result(text: str, limits: Limits) -> StoredResult:
    """A result as its row keeps it: a longer one by its digest alone."""
    raw = text.encode("utf-8", errors="replace")
    is_kept = len(raw) <= limits.stored_result_bytes
    return {
        "result": text if is_kept else None,
        "result_sha256": hashlib.sha256(raw).hexdigest(),
        "result_bytes": len(raw),
        "retention": "inline" if is_kept else "dropped",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    call_id: str
    number: int
    site: CallSite
    place: CallPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    row: ToolCall
    result: ToolResult | None
    broken: Exception | None


def _text_of(site: CallSite, result: ToolResult | None, broken: Exception | None) -> str:
    if isinstance(site, MalformedCall):
        return site.reason
    if result is not None:
        return result.text
    return "" if broken is None else describe(broken)


def _status_of(result: ToolResult | None, site: CallSite) -> CallStatus:
    if isinstance(site, MalformedCall):
        return "invalid_call"
    # A call under which the environment broke is no mistake of the policy: its episode fails and is retried.
    return "tool_error" if result is None else cast(CallStatus, result.status)
