"""Messages to tokens and back: what was sampled stays as sampled, what the environment says is appended.

    open    messages, tools ─────────────► pieces of the first context, generation prompt included
    extend  context + sampled turn + what is said ─► the pieces behind it, or a new context where history is rewritten
    parse   sampled tokens ──────────────► text, calls, spans

Shapes of conversations and short texts are remembered: a turn costs microseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rollwright.record import Ids, Message, Origin, digest, ids
from rollwright.rendering.codec import Codec
from rollwright.rendering.conversation import Conversation, Entry, Piece, Rendered, Said, Toolset
from rollwright.rendering.errors import RenderingError
from rollwright.rendering.grammar import CallGrammar
from rollwright.rendering.parsing import ParsedTurn, TurnParser
from rollwright.rendering.probe import TemplateReport
from rollwright.rendering.schemas import tool_definitions
from rollwright.rendering.template import ASSISTANT, THINKING, Item, Slot, Stretch, Template, as_slot_text, shielded

__all__ = ["Renderer"]

STRETCH_CACHE = 16_384
LONGEST_REMEMBERED = 1_024
"""Characters; longer stretches hardly come again, and would fill the memory."""
TEMPLATE_ROLE = {"environment": "user"}
"""Roles of ours that a template knows under another name."""


class Renderer:
    """The only place that tokenises, for one tokenizer folder."""

    def __init__(
        self, *, codec: Codec, template: Template, parser: TurnParser, report: TemplateReport, base: str
    ) -> None:
        self._codec = codec
        self._template = template
        self._parser = parser
        self._report = report
        self._base = base
        self._toolsets: dict[tuple[tuple[str, str], ...], Toolset] = {}
        self._split = lru_cache(maxsize=STRETCH_CACHE)(self._split_stretch)

    @property
    def report(self) -> TemplateReport:
        """What the probe found when the template was loaded."""
        return self._report

    @property
    def grammar(self) -> CallGrammar:
        """How calls are written."""
        return self._parser.grammar

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Every token that ends a turn."""
        return self._parser.stop_token_ids

    @property
    def turn_end_id(self) -> int | None:
        """The token that the template writes behind a turn; None where it writes text there."""
        return self._report.turn_end_id

    def revision(self, tools: Mapping[str, str]) -> str:
        """Digest of tokenizer, template, call grammar and tool schemas."""
        return digest([self._base, [[name, schema] for name, schema in tools.items()]])

    def open(self, messages: Sequence[Message], tools: Mapping[str, str], *, origin: Origin = "task") -> Rendered:
        """Render a first context.

        Args:
            messages: at least one; roles as the template knows them, or `environment`.
            tools: name to JSON schema, as `Episode.tools` has them.
            origin: of the messages' tokens.

        Raises:
            RenderingError: where the template refuses these roles, or there is no message.
        """
        if not messages:
            raise RenderingError("a context opens with at least one message; the observation has none.")
        toolset = self._toolset(tools)
        if toolset.key and not self._report.takes_tools:
            messages = self._with_tools_in_words(messages, toolset)
        entries = tuple(Said(message=message, origin=origin) for message in messages)
        roles = tuple(_role(entry) for entry in entries)
        frame = self._template.opening(toolset, roles)
        conversation = Conversation(tools=toolset, entries=entries, roles=roles)
        return Rendered(pieces=self._fill(frame.items, entries), conversation=conversation)

    def extend(self, conversation: Conversation, turn: ParsedTurn, said: Sequence[Said]) -> Rendered:
        """Render what follows a sampled turn; history is not tokenised again.

        Args:
            conversation: behind which the turn was sampled.
            turn: as `parse` read it.
            said: results of its calls, then messages.

        Returns:
            Pieces to append, or those of a new context with the reason in `rewrites`.
        """
        entries = (*conversation.entries, turn, *said)
        has_reasoning = turn.reasoning is not None and not turn.is_reasoning_open
        turn_role = THINKING if has_reasoning else ASSISTANT
        roles = (*conversation.roles, turn_role, *(_role(entry) for entry in said))
        frame = self._template.continuation(conversation.tools, roles, len(conversation.roles) + 1)
        items = frame.items
        if frame.rewrites is None and turn.is_stopped:
            items = self._behind_stop(items, int(turn.token_ids[-1]))
        grown = Conversation(tools=conversation.tools, entries=entries, roles=roles)
        return Rendered(pieces=self._fill(items, entries), conversation=grown, rewrites=frame.rewrites)

    def parse(self, token_ids: Ids) -> ParsedTurn:
        """Read a sampled turn: text, reasoning, calls, spans."""
        return self._parser.parse(token_ids)

    def decode(self, token_ids: Ids | Sequence[int]) -> str:
        """Text of tokens, control tokens included."""
        return self._codec.decode(token_ids)

    def encode_turn(self, text: str, calls: Sequence[tuple[str, str]] = (), *, reasoning: str | None = None) -> Ids:
        """Write an assistant's turn as this family does, for demonstrations and tests.

        Args:
            text: what it says before its calls.
            calls: (tool, JSON arguments), in order.
            reasoning: what it thinks first; needs a family that has tags for it.

        Returns:
            Tokens as the policy would sample them, stop token included.
        """
        lead = ""
        marks = self._parser.reasoning
        if reasoning is not None:
            if marks is None:
                raise RenderingError("this template has no reasoning tags; write the turn without reasoning.")
            opening = "" if marks.is_opened_by_prompt else f"{marks.opening}\n"
            lead = f"{opening}{reasoning}\n{marks.closing}\n\n"
        if not text and lead == "":
            written = self.grammar.write(calls).lstrip("\n")
        else:
            written = lead + text + self.grammar.write(calls)
        tags = self.grammar.tags + ((marks.opening, marks.closing) if marks is not None else ())
        body = self._codec.encode_with_tags(written, tags)
        end = self.turn_end_id if self.turn_end_id is not None else min(self.stop_token_ids)
        return ids([*body.tolist(), end])

    def _toolset(self, tools: Mapping[str, str]) -> Toolset:
        key = tuple(tools.items())
        toolset = self._toolsets.get(key)
        if toolset is None:
            definitions, literals = tool_definitions(tools), {}
            if self._report.takes_tools:
                definitions, literals = shielded(definitions, tuple(self._codec.controls))
            toolset = self._toolsets[key] = Toolset(key=key, definitions=definitions, literals=literals)
        return toolset

    def _with_tools_in_words(self, messages: Sequence[Message], tools: Toolset) -> tuple[Message, ...]:
        words = self.grammar.describe(tools.definitions)
        if messages[0].role == "system":
            return (Message(role="system", text=f"{messages[0].text}\n\n{words}"), *messages[1:])
        return (Message(role="system", text=words), *messages)

    def _fill(self, items: Sequence[Item], entries: Sequence[Entry]) -> tuple[Piece, ...]:
        pieces = _Pieces()
        for item in items:
            if isinstance(item, tuple):
                pieces.write(item)
            else:
                self._fill_stretch(item, entries, pieces)
        return pieces.close()

    def _fill_stretch(self, stretch: Stretch, entries: Sequence[Entry], pieces: "_Pieces") -> None:
        """Encode a stretch with what is said in its slots; sampled tokens are put in as they are."""
        text = ""
        cuts: list[tuple[int, int]] = []
        said: list[tuple[Said, int]] = []
        for part in stretch.parts:
            if isinstance(part, str):
                text += part
                continue
            entry = entries[part.entry]
            if isinstance(entry, ParsedTurn) or self._is_tagged(entry):
                self._say(text, cuts, said, pieces)
                text, cuts, said = "", [], []
                self._copy(part, entry, pieces)
            elif part.part == "text":
                words = as_slot_text(part, entry.message.text)
                cuts.append((len(text), len(text) + len(words)))
                said.append((entry, part.entry))
                text += words
            else:
                text += entry.tool or ""
        self._say(text, cuts, said, pieces)

    def _say(self, text: str, cuts: list[tuple[int, int]], said: list[tuple[Said, int]], pieces: "_Pieces") -> None:
        """Encode text at once and give each part to whom it belongs."""
        if not text and not said:
            return
        split = self._split if len(text) <= LONGEST_REMEMBERED else self._split_stretch
        runs = split(text, tuple(cuts))
        pieces.write(runs[0])
        for (entry, number), inner, behind in zip(said, runs[1::2], runs[2::2], strict=True):
            pieces.say(inner, entry, number)
            pieces.write(behind)

    def _behind_stop(self, items: tuple[Item, ...], stop: int) -> tuple[Item, ...]:
        """What is left to append when the token that ends the turn was sampled already."""
        first = items[0] if items else None
        if isinstance(first, tuple):
            for at, token in enumerate(first):
                if token in self._codec.control_ids:
                    return (first[at + 1 :], *items[1:]) if token == stop else items
        return items

    def _is_tagged(self, entry: Said) -> bool:
        return entry.message.role == ASSISTANT and any(tag in entry.message.text for tag in self.grammar.tags)

    def _copy(self, slot: Slot, entry: Entry, pieces: "_Pieces") -> None:
        """Put in tokens that are not encoded with their surroundings: a sampled turn, an example with calls in it."""
        if isinstance(entry, Said):
            found = self._codec.encode_with_tags(entry.message.text, self.grammar.tags)
            pieces.say(tuple(found.tolist()), entry, slot.entry)
            return
        if slot.part == "reasoning":
            pieces.copy(self._codec.encode_plain(entry.reasoning or "")[0], slot.entry, 0)
            return
        shown = [span for span in entry.spans if span.kind in ("answer", "tool_call")]
        first, last = (shown[0].token_start, shown[-1].token_end) if shown else (0, 0)
        pieces.copy(tuple(entry.token_ids[first:last].tolist()), slot.entry, first)

    def _split_stretch(self, text: str, cuts: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], ...]:
        """Encode at once, then divide: before, cut 0, between, cut 1, …, behind.

        A token that touches what was said belongs to it, though it may hold a letter of the template too.
        """
        token_ids, ranges = self._codec.encode_plain(text)
        runs: list[list[int]] = [[] for _ in range(2 * len(cuts) + 1)]
        run = 0
        for token, (start, end) in zip(token_ids, ranges, strict=True):
            while run < 2 * len(cuts):
                first, last = cuts[run // 2]
                if not (end > first if run % 2 == 0 else start >= last or first == last):
                    break
                run += 1
            runs[run].append(token)
        return tuple(map(tuple, runs))


@dataclass(slots=True)
class _Pieces:
    """Collects pieces; what the template writes in one go is one piece."""

    done: list[Piece] = field(default_factory=lambda: [])
    template: list[int] = field(default_factory=lambda: [])

    def write(self, token_ids: Sequence[int]) -> None:
        self.template.extend(token_ids)

    def say(self, token_ids: Sequence[int], said: Said, entry: int) -> None:
        self._flush()
        self.done.append(Piece(origin=said.origin, token_ids=ids(token_ids), call_id=said.call_id, entry=entry))

    def copy(self, token_ids: Sequence[int], entry: int, first_token: int) -> None:
        self._flush()
        self.done.append(Piece(origin="replayed", token_ids=ids(token_ids), entry=entry, first_token=first_token))

    def close(self) -> tuple[Piece, ...]:
        self._flush()
        return tuple(self.done)

    def _flush(self) -> None:
        if self.template:
            self.done.append(Piece(origin="template", token_ids=ids(self.template)))
            self.template = []


def _role(said: Said) -> str:
    return TEMPLATE_ROLE.get(said.message.role, said.message.role)
