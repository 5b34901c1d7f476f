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
_FEWEST_OF_ONE_CAUSE = 20
_SHARE_OF_ONE_CAUSE = 0.25
"""Episodes, and findings of all calls, from which the tokenizer is named and not the calls."""


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
        yield from _folded(run, [*_answers(run, tokens), *_questions(run, tokens)])


def _folded(run: LoadedRun, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Where tokens speak otherwise all over the run, the tokenizer does, and each of them is sound."""
    [[calls]] = run.rows("SELECT count(*) FROM tool_calls")
    hurt = {finding.place.partition(" ")[2].partition(" ")[0] for finding in findings}
    if len(hurt) >= _FEWEST_OF_ONE_CAUSE and len(findings) > _SHARE_OF_ONE_CAUSE * int(str(calls)):
        yield Finding(
            place="tokenizer/tokenizer.json",
            text=f"the tokens of {len(findings)} calls and results read otherwise than they are stored, in {len(hurt)} "
            f"episodes; the first: {findings[0].place}: {findings[0].text}",
            expected="the tokenizer that the run began with",
            concern="calls",
        )
    else:
        yield from findings


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
    for call_id, name, segment, result, stored in run.rows(_ANSWERED):
        ids, due = cast("Sequence[int]", stored), str(result)
        if not run.foreign_ids.isdisjoint(ids):
            continue
        shown = tokens.decode(ids)
        if shown.strip() != due.strip() and _BROKEN not in shown and "\\ud" not in due:
            first = _first_other(tokens, ids, due)
            yield Finding(
                place=f"{name}/{segment}/{first}",
                text=f"the tokens that answer {call_id} say {_short(shown)}, from token {first} on",
                expected=f"{_short(due)}, the stored result",
                concern="calls",
            )


def _first_other(tokens: TokenText, ids: Sequence[int], due: str) -> int:
    """The index of the first token behind which the text is no beginning of what is due."""
    for index in range(len(ids)):
        shown = tokens.decode(ids[: index + 1]).rstrip(_BROKEN)
        if not due.lstrip().startswith(shown.strip()):
            return index
    return max(0, len(ids) - 1)


def _questions(run: LoadedRun, tokens: TokenText) -> Iterator[Finding]:
    """The turn that asked says the tool's name and the arguments."""
    for call_id, tool, arguments, name, segment, stored in run.rows(_ASKED):
        ids = cast("Sequence[int]", stored)
        if not run.foreign_ids.isdisjoint(ids):
            continue
        said = tokens.decode(ids)
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
