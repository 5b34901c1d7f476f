"""The calls of an agent that runs its tools itself: asked in a turn, answered by a message that it sends back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rollwright.record import Segment, ToolCall, digest
from rollwright.rendering import MalformedCall, ParsedTurn
from rollwright.rollout.calls import CallPlace, cut_middle, stored_result
from rollwright.rollout.clock import Clock
from rollwright.rollout.gateway.asked import Heard
from rollwright.rollout.spec import Limits

__all__ = ["ReportedCalls"]


class ReportedCalls:
    """Rows of the table. A call that no message ever answered has status `refused` and no result."""

    def __init__(self, trajectory_id: str, limits: Limits, clock: Clock) -> None:
        self._trajectory_id = trajectory_id
        self._limits = limits
        self._clock = clock
        self._rows: list[ToolCall] = []

    @property
    def rows(self) -> tuple[ToolCall, ...]:
        """In the order of asking."""
        return tuple(self._rows)

    def ask(self, turn: ParsedTurn, place: CallPlace, tools: Mapping[str, str]) -> tuple[str, ...]:
        """Note the calls of a turn.

        Args:
            turn: as parsed; its calls that could not be read get rows too.
            place: where it was sampled.
            tools: that the agent offered, name to definition.

        Returns:
            Rows of the calls that could be read, in order.
        """
        first = len(self._rows)
        for site in turn.calls:
            is_malformed = isinstance(site, MalformedCall)
            schema = None if is_malformed else tools.get(site.tool)
            row = ToolCall(
                call_id=f"{self._trajectory_id}/c{len(self._rows)}",
                asked_in=place.segment,
                answered_in=None,
                turn=place.turn,
                tool="" if is_malformed else site.tool,
                tool_revision="" if schema is None else digest(schema)[:16],
                arguments=cut_middle(site.text, self._limits) if is_malformed else site.arguments,
                status="invalid_call" if is_malformed else "refused",
                result=None,
                result_sha256=None,
                result_bytes=0,
                retention="dropped",
                started_at=self._clock.now(),
                latency_s=0.0,
            )
            self._rows.append(row if not is_malformed else replace(row, **stored_result(site.reason, self._limits)))
        return tuple(row.call_id for row in self._rows[first:] if row.tool)

    def report(self, result: Heard, latency_s: float) -> None:
        """Note what the agent says a call gave; the first report stands.

        Args:
            result: with the row as its id.
            latency_s: between the turn and the report.
        """
        at = int(str(result.call_id).rsplit("/c", 1)[1])
        row = self._rows[at]
        if row.status != "refused":
            return
        self._rows[at] = replace(
            row,
            status="tool_error" if result.is_error else "ok",
            latency_s=latency_s,
            **stored_result(result.text, self._limits),
        )

    def note_answers(self, turn: int | None, segments: Sequence[Segment]) -> None:
        """Say in the rows which of these new segments answered them.

        Args:
            turn: behind which they stand; None: they begin a context.
            segments: as written.
        """
        said = [s for s in segments if s.copied_from is None and s.origin not in ("template", "replayed")]
        for segment in said:
            if segment.call_id is not None:
                at = int(segment.call_id.rsplit("/c", 1)[1])
                if self._rows[at].answered_in is None:
                    self._rows[at] = replace(self._rows[at], answered_in=segment.segment)
        plain = next((s.segment for s in said if s.call_id is None), None)
        if turn is not None and plain is not None:
            for at, row in enumerate(self._rows):
                if row.turn == turn and row.tool == "" and row.answered_in is None:
                    self._rows[at] = replace(row, answered_in=plain)
