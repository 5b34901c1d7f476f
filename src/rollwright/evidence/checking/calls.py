"""Tool calls against the tokens: who asked, who answered, and whether both say what the row says."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import cast

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions
from rollwright.evidence.token_text import TokenText

__all__ = ["check_calls"]

_BROKEN = "\ufffd"


def check_calls(run: LoadedRun) -> Iterator[Finding]:
    """Every call stands in a turn of the policy and its answer in a segment of the tool, word for word."""
    for question in questions("calls"):
        yield from run.found("calls", question)
    for call_id, result, sha256, size in run.rows(
        "SELECT call_id, result, result_sha256, result_bytes FROM tool_calls WHERE retention = 'inline'"
    ):
        yield from _stored(str(call_id), result, sha256, size)
    if len(run.manifests) == 1:
        yield from run.found("calls", _TOOL_REVISIONS)
    tokens = run.tokens
    if tokens is not None:
        yield from _answers(run, tokens)
        yield from _questions(run, tokens)


def _stored(call_id: str, result: object, sha256: object, size: object) -> Iterator[Finding]:
    """Inline text against its digest and size."""
    place = f"tool_calls {call_id}"
    if not isinstance(result, str):
        yield Finding(place=place, text="its result is kept inline and is not there", concern="calls")
        return
    raw = result.encode("utf-8", errors="replace")
    # Halves of characters are stored escaped and digested replaced: there the two cannot agree.
    if "\\ud" in result:
        return
    if size != len(raw):
        yield Finding(
            place=place, text=f"result_bytes is {size}", expected=f"{len(raw)}, of its result", concern="calls"
        )
    due = hashlib.sha256(raw).hexdigest()
    if sha256 is not None and sha256 != due:
        text = f"result_sha256 is {str(sha256)[:12]}…"
        yield Finding(place=place, text=text, expected=f"{due[:12]}…, of its result", concern="calls")


def _answers(run: LoadedRun, tokens: TokenText) -> Iterator[Finding]:
    """The segment that answers a call decodes to the stored result."""
    for call_id, name, segment, result, ids in run.rows(_ANSWERED):
        shown, due = tokens.decode(cast("Sequence[int]", ids)), str(result)
        if shown.strip() != due.strip() and _BROKEN not in shown and "\\ud" not in due:
            yield Finding(
                place=f"segments {name} {segment}",
                text=f"the tokens that answer {call_id} say {_short(shown)}",
                expected=f"{_short(due)}, the stored result",
                concern="calls",
            )


def _questions(run: LoadedRun, tokens: TokenText) -> Iterator[Finding]:
    """The turn that asked says the tool's name and the arguments."""
    for call_id, tool, arguments, name, segment, ids in run.rows(_ASKED):
        said = tokens.decode(cast("Sequence[int]", ids))
        if _BROKEN in said or "\\ud" in str(arguments):
            continue
        missing = [part for part in _parts(str(tool), str(arguments)) if part not in said]
        if missing:
            yield Finding(
                place=f"segments {name} {segment}",
                text=f"the turn that asked {call_id} says {_short(said)}",
                expected=f"a call of {tool} with {_short(str(arguments))}",
                concern="calls",
            )


def _parts(tool: str, arguments: str) -> Iterator[str]:
    """Texts that the turn must hold: the name, and the arguments as written or, rewritten, each of their texts."""
    yield tool
    yield arguments


def _short(text: str) -> str:
    return json.dumps(text if len(text) <= 80 else f"{text[:79]}…", ensure_ascii=False)


_TOOL_REVISIONS = """SELECT concat('tool_calls ', call_id), concat('tool_revision is ', tool_revision),
    concat(usual, ', as in the other calls of ', tool)
  FROM (SELECT call_id, tool, tool_revision, mode(tool_revision) OVER (PARTITION BY tool) AS usual FROM tool_calls
    WHERE tool_revision <> '') WHERE tool_revision <> usual"""
_ANSWERED = """SELECT c.call_id, c.trajectory_id, s.segment, c.result, s.token_ids FROM tool_calls c
  JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.answered_in
  WHERE c.retention = 'inline' AND c.result IS NOT NULL AND s.origin = 'tool' AND s.call_id = c.call_id"""
_ASKED = """WITH turns AS (SELECT trajectory_id, actor, turn, flatten(list(token_ids ORDER BY segment)) AS token_ids
    FROM segments WHERE origin IN ('policy', 'demonstration', 'replayed') AND copied_from IS NULL GROUP BY ALL)
  SELECT c.call_id, c.tool, c.arguments, c.trajectory_id, c.asked_in, t.token_ids FROM tool_calls c
  JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.asked_in
  JOIN turns t ON t.trajectory_id = s.trajectory_id AND t.actor = s.actor AND t.turn = s.turn
  WHERE c.tool <> '' AND s.origin IN ('policy', 'demonstration') AND c.status <> 'invalid_call'"""
