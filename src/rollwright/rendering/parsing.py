"""What a sampled turn says: reasoning, visible text, tool calls, and which tokens each of them is.

    tokens ──bytes──► [ reasoning … </think> ][ answer ][ <tool_call>…</tool_call> ][ stop ]

Everything up to the last closing tag of reasoning is reasoning, whether its opening tag was sampled or stood in the
prompt. Reasoning that is not closed leaves nothing visible. Calls are looked for in the visible part alone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rollwright.record import Ids, TokenSpan
from rollwright.rendering.codec import Codec
from rollwright.rendering.grammar import CallGrammar, CallSite, MalformedCall, ParsedCall, Tag, VisibleText

__all__ = ["ParsedTurn", "ReasoningTags", "TurnParser"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningTags:
    """How the family marks what it thinks."""

    opening: str = "<think>"
    closing: str = "</think>"
    is_opened_by_prompt: bool = False
    """True where the generation prompt ends inside an open block."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedTurn:
    """A turn as read; `spans` cover its tokens in order, half open."""

    token_ids: Ids
    """As sampled, stop token included."""
    text: str
    """All of it but the stop token."""
    reasoning: str | None
    """None: there was none."""
    visible: str
    """What follows the reasoning, calls included."""
    answer: str
    """The visible text without the calls."""
    calls: tuple[CallSite, ...]
    parse_error: str | None
    """Of the first malformed call, to be read by the policy."""
    spans: tuple[TokenSpan, ...]
    is_reasoning_open: bool
    """True where the turn ended inside its reasoning."""
    is_stopped: bool
    """True where the last token is a stop token."""

    @property
    def parsed_calls(self) -> tuple[ParsedCall, ...]:
        """The calls that can be run."""
        return tuple(site for site in self.calls if isinstance(site, ParsedCall))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnParser:
    """Reads turns of one family."""

    codec: Codec
    grammar: CallGrammar
    reasoning: ReasoningTags | None
    stop_token_ids: frozenset[int]

    def parse(self, token_ids: Ids) -> ParsedTurn:
        """Read a sampled turn.

        Args:
            token_ids: (n,) as the engine drew them, stop token included.

        Returns:
            Text, calls and spans. A token belongs to the part in which its first byte stands.
        """
        tokens: list[int] = token_ids.tolist()
        is_stopped = bool(tokens) and tokens[-1] in self.stop_token_ids
        body = tokens[:-1] if is_stopped else tokens
        pieces = self.codec.bytes_of(body)
        data = b"".join(pieces)
        starts = [0, *accumulate(map(len, pieces))][: len(body)]
        thought, end_of_reasoning, is_open = self._reasoning(body, starts, data)
        visible = VisibleText(
            data=data[end_of_reasoning:],
            tags=self._tags(self.grammar.tags, body, starts, data, end_of_reasoning),
        )
        calls = self.grammar.find(visible)
        return ParsedTurn(
            token_ids=token_ids,
            text=_text(data),
            reasoning=thought,
            visible=_text(visible.data),
            answer=_text(_without_calls(visible.data, calls)),
            calls=calls,
            parse_error=next((site.reason for site in calls if isinstance(site, MalformedCall)), None),
            spans=_spans(starts, end_of_reasoning, calls, len(tokens)),
            is_reasoning_open=is_open,
            is_stopped=is_stopped,
        )

    def _reasoning(self, tokens: list[int], starts: list[int], data: bytes) -> tuple[str | None, int, bool]:
        """The reasoning's text, where the visible part begins (in bytes), and whether it never did."""
        marks = self.reasoning
        if marks is None:
            return None, 0, False
        found = self._tags((marks.opening, marks.closing), tokens, starts, data, 0)
        closed = max((tag.end for tag in found if tag.text == marks.closing), default=None)
        at_start = 0 if marks.is_opened_by_prompt else -1
        opened = max((tag.end for tag in found if tag.text == marks.opening), default=at_start)
        if opened > (-1 if closed is None else closed):
            return _inner(data, marks), len(data), True
        if closed is None:
            return None, 0, False
        end = closed + len(data[closed:]) - len(data[closed:].lstrip())
        return _inner(data[:closed], marks), end, False

    def _tags(
        self, names: Sequence[str], tokens: list[int], starts: list[int], data: bytes, behind: int
    ) -> tuple[Tag, ...]:
        """Where these tags stand from byte `behind` on; offsets count from there."""
        found: list[Tag] = []
        by_id = {self.codec.controls[name]: name for name in names if name in self.codec.controls}
        if by_id and not by_id.keys().isdisjoint(tokens):
            for token, start in zip(tokens, starts, strict=True):
                if start >= behind and token in by_id:
                    name = by_id[token]
                    found.append(Tag(name, start - behind, start - behind + len(name.encode())))
        for name in names:
            if name not in self.codec.controls:
                raw = name.encode()
                at = data.find(raw, behind)
                while at >= 0:
                    found.append(Tag(name, at - behind, at - behind + len(raw)))
                    at = data.find(raw, at + len(raw))
        found.sort(key=lambda tag: tag.start)
        return tuple(found)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _inner(data: bytes, marks: ReasoningTags) -> str:
    """Reasoning without its outermost tags and the white space inside them."""
    text = _text(data).strip()
    return text.removeprefix(marks.opening).removesuffix(marks.closing).strip()


def _without_calls(data: bytes, calls: Sequence[CallSite]) -> bytes:
    kept: list[bytes] = []
    done = 0
    for site in calls:
        if site.start >= done:
            kept.append(data[done : site.start])
        done = max(done, site.end)
    kept.append(data[done:])
    return b"".join(kept)


def _spans(starts: list[int], visible_from: int, calls: Sequence[CallSite], num_tokens: int) -> tuple[TokenSpan, ...]:
    """Turn byte ranges into token ranges; an empty range gives no span."""
    edges: list[tuple[str, int]] = [("reasoning", 0), ("answer", visible_from)]
    for site in calls:
        if not edges or site.start + visible_from >= edges[-1][1]:
            edges += [("tool_call", site.start + visible_from), ("answer", site.end + visible_from)]
    ends = [bisect_left(starts, start) for _, start in edges[1:]] + [len(starts)]
    spans: list[TokenSpan] = []
    begin = 0
    for (kind, _), end in zip(edges, ends, strict=True):
        if end > begin:
            spans.append(TokenSpan(kind=kind, token_start=begin, token_end=end))
        begin = max(begin, end)
    if num_tokens > len(starts):
        spans.append(TokenSpan(kind="stop", token_start=len(starts), token_end=num_tokens))
    return tuple(spans)
