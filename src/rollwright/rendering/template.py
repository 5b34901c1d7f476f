"""The text that a chat template writes, read from the template itself.

A conversation is rendered with a sentinel word in the place of every text. What stands between two sentinels is what
the template writes; what comes after the sentinel of the last assistant turn is the delta. Which words stand there is
cached by the *shape* of the conversation (its roles), so a turn costs no template run once its shape was seen.

    shape ──sentinels──► text ──cut at sentinels──► Frame of control tokens, constant text, and slots for what is said
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from rollwright.rendering.codec import Codec
from rollwright.rendering.conversation import Toolset
from rollwright.rendering.errors import RenderingError
from rollwright.rendering.parsing import ReasoningTags

__all__ = [
    "ASSISTANT",
    "THINKING",
    "Frame",
    "Item",
    "Slot",
    "Stretch",
    "Template",
    "TemplateSource",
    "as_slot_text",
    "shielded",
]

ASSISTANT = "assistant"
THINKING = "assistant, with reasoning"
MAX_SHAPES = 65_536

TemplateSource = Callable[[Sequence[Mapping[str, object]], Sequence[Mapping[str, object]]], str]
"""(messages, tools) to text, generation prompt included."""
Trim = Literal["kept", "newlines", "all"]
SlotPart = Literal["text", "reasoning", "tool"]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where something said stands in a frame, and what the template does to it."""

    entry: int
    part: SlotPart
    left: Trim = "kept"
    right: Trim = "kept"
    writes: Literal["verbatim", "json"] = "verbatim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Text between two control tokens, with slots in it: encoded as a whole, as the template's own rendering is."""

    parts: tuple[str | Slot, ...]


Item = tuple[int, ...] | Stretch
"""Tokens that are always the same, or a stretch to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is to be appended (or, where history is rewritten, a whole context)."""

    items: tuple[Item, ...]
    rewrites: str | None


class Template:
    """Frames of one template, cached by shape."""

    def __init__(self, source: TemplateSource, codec: Codec, reasoning: ReasoningTags | None) -> None:
        self._source = source
        self._codec = codec
        self._reasoning = reasoning
        self._texts: dict[tuple[object, ...], str] = {}
        self._frames: dict[tuple[object, ...], Frame] = {}

    def opening(self, tools: Toolset, roles: tuple[str, ...]) -> Frame:
        """The frame of a first context, up to and with the generation prompt."""
        key = (tools.key, roles)
        frame = self._frames.get(key)
        if frame is None:
            text = self.text(tools, roles)
            slots = self._slots(tools, roles, range(len(roles)))
            frame = _keep(self._frames, key, Frame(items=self._items(text, slots, tools), rewrites=None))
        return frame

    def continuation(self, tools: Toolset, roles: tuple[str, ...], num_known: int) -> Frame:
        """The frame behind a sampled turn.

        Args:
            tools: of the episode.
            roles: of all entries; the last `len(roles) - num_known` are new and follow the turn.
            num_known: entries that stand in the context, the turn included.

        Returns:
            What follows the turn's text (from the token that ends a turn on), or the whole context again where the
            template has changed what stood before.
        """
        key = (tools.key, roles, num_known)
        frame = self._frames.get(key)
        if frame is None:
            frame = _keep(self._frames, key, self._continue(tools, roles, num_known))
        return frame

    def text(self, tools: Toolset, roles: tuple[str, ...]) -> str:
        """The template's text of a shape, in sentinels."""
        key = (tools.key, roles)
        text = self._texts.get(key)
        if text is None:
            text = _keep(self._texts, key, self._render(tools, [self._message(i, r) for i, r in enumerate(roles)]))
        return text

    def _continue(self, tools: Toolset, roles: tuple[str, ...], num_known: int) -> Frame:
        turn = num_known - 1
        before = self.text(tools, roles[:turn])
        after = self.text(tools, roles)
        place = _only_place(after, _sentinel(turn, "text"), f"the text of {ASSISTANT}")
        lead = ""
        if roles[turn] == THINKING and self._reasoning is not None:
            opening, closing = self._reasoning.opening, self._reasoning.closing
            is_open = before.rstrip().endswith(opening)
            lead = ("" if is_open else opening) + _sentinel(turn, "reasoning") + closing
        rewrites = _difference(before + lead, after[:place])
        if rewrites is not None:
            slots = self._slots(tools, roles, range(len(roles)))
            return Frame(items=self._items(after, slots, tools), rewrites=rewrites)
        slots = self._slots(tools, roles, range(num_known, len(roles)))
        behind = after[place + len(_sentinel(turn, "text")) :]
        return Frame(items=self._items(behind, slots, tools), rewrites=None)

    def _message(self, entry: int, role: str) -> dict[str, object]:
        text = _sentinel(entry, "text")
        if role == THINKING and self._reasoning is not None:
            marks = self._reasoning
            text = f"{marks.opening}\n{_sentinel(entry, 'reasoning')}\n{marks.closing}\n\n{text}"
        return _message(role, text, _sentinel(entry, "tool"))

    def _render(self, tools: Toolset, messages: Sequence[Mapping[str, object]]) -> str:
        try:
            return self._source(messages, tools.definitions)
        except Exception as error:  # noqa: BLE001 - a template is a program of its own and raises what it likes
            roles = ", ".join(str(message["role"]) for message in messages)
            raise RenderingError(
                f"the chat template refuses a conversation of {roles}: {error}. Use an environment that speaks as the "
                "template allows, or a tokenizer folder with another chat_template."
            ) from error

    def _slots(self, tools: Toolset, roles: tuple[str, ...], entries: range) -> dict[str, Slot]:
        """Sentinels of these entries, with what the template does to the text in their place."""
        plain = self.text(tools, roles)
        slots: dict[str, Slot] = {}
        for entry in entries:
            role = roles[entry]
            slots[_sentinel(entry, "tool")] = Slot(entry=entry, part="tool")
            slots[_sentinel(entry, "reasoning")] = Slot(entry=entry, part="reasoning")
            word = _sentinel(entry, "text")
            if role in (ASSISTANT, THINKING):
                slots[word] = Slot(entry=entry, part="text")
                continue
            place = _only_place(plain, word, f"the text of {role}")
            messages = [self._message(i, r) for i, r in enumerate(roles)]
            messages[entry] = _message(role, f'{PADDING}{word}"{word}{PADDING}', _sentinel(entry, "tool"))
            decorated = self._render(tools, messages)
            slots[word] = _treatment(plain, decorated, place, Slot(entry=entry, part="text"), word)
        return slots

    def _items(self, text: str, slots: Mapping[str, Slot], tools: Toolset) -> tuple[Item, ...]:
        """Cut text into control tokens, and stretches of constant text and slots between them."""
        said: Mapping[str, str | Slot] = {**tools.literals, **slots}
        items: list[Item] = []
        constant: list[int] = []
        stretch: list[str | Slot] = []

        def close_stretch() -> None:
            if any(isinstance(part, Slot) for part in stretch):
                close_constant()
                items.append(Stretch(parts=tuple(stretch)))
            elif stretch:
                constant.extend(self._codec.encode_plain("".join(map(str, stretch)))[0])
            stretch.clear()

        def close_constant() -> None:
            if constant:
                items.append(tuple(constant))
                constant.clear()

        for part in _SENTINEL.split(text):
            if part in said:
                stretch.append(said[part])
                continue
            for inner in self._codec.split_controls(part):
                if isinstance(inner, int):
                    close_stretch()
                    constant.append(inner)
                else:
                    stretch.append(inner)
        close_stretch()
        close_constant()
        return tuple(items)


PADDING = "\n \n"
_SENTINEL = re.compile(r"(qzjx[a-z]+\d+xjzq)")


def as_slot_text(slot: Slot, text: str) -> str:
    """What the template makes of a text in this place."""
    match slot.left:
        case "all":
            text = text.lstrip()
        case "newlines":
            text = text.lstrip("\n")
        case "kept":
            pass
    match slot.right:
        case "all":
            text = text.rstrip()
        case "newlines":
            text = text.rstrip("\n")
        case "kept":
            pass
    return text if slot.writes == "verbatim" else json.dumps(text, ensure_ascii=False)[1:-1]


def shielded(
    definitions: Sequence[Mapping[str, object]], controls: Sequence[str]
) -> tuple[tuple[Mapping[str, object], ...], Mapping[str, str]]:
    """Definitions of tools in which no text reads as a control token or as a sentinel.

    They come from whoever wrote the tool, a server elsewhere included, and a template writes them between control
    tokens of its own.

    Args:
        definitions: as templates take them.
        controls: texts of the control tokens.

    Returns:
        The definitions with placeholders, and what each placeholder stands for.
    """
    words = [re.escape(control) for control in sorted(controls, key=len, reverse=True)]
    foreign = re.compile("|".join([*words, _SENTINEL.pattern]))
    places: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        return places.setdefault(match[0], f"qzjxliteral{len(places)}xjzq")

    def shield(value: object) -> object:
        match value:
            case str():
                return foreign.sub(replaced, value)
            case list():
                return [shield(inner) for inner in cast("list[object]", value)]
            case dict():
                return {str(shield(key)): shield(inner) for key, inner in cast("dict[str, object]", value).items()}
            case _:
                return value

    done = tuple(cast("Mapping[str, object]", shield(dict(one))) for one in definitions)
    return done, {place: text for text, place in places.items()}


def _sentinel(entry: int, part: SlotPart) -> str:
    return f"qzjx{part}{entry}xjzq"


def _message(role: str, text: str, tool: str) -> dict[str, object]:
    if role == "tool":
        return {"role": "tool", "content": text, "name": tool}
    return {"role": ASSISTANT if role == THINKING else role, "content": text}


def _only_place(text: str, word: str, what: str) -> int:
    place = text.find(word)
    if place < 0 or text.find(word, place + 1) >= 0:
        times = text.count(word)
        raise RenderingError(
            f"the chat template writes {what} {times} times where once is due, so it cannot be delta-rendered. Use a "
            "tokenizer folder whose chat_template writes every message once, unchanged."
        )
    return place


def _treatment(plain: str, decorated: str, place: int, slot: Slot, word: str) -> Slot:
    """Compare a text in white space and with a quote against the bare one: what was done to it?"""
    before, after = plain[:place], plain[place + len(word) :]
    first, last = decorated.find(word), decorated.rfind(word)
    ends: dict[str, Trim] = {PADDING: "kept", "": "all", " \n": "newlines", "\n ": "newlines"}
    writes: Literal["verbatim", "json"] = "verbatim"
    if decorated[first:last] == f'{word}\\"':
        writes = "json"
        ends = {json.dumps(white)[1:-1]: trim for white, trim in ends.items()}
    left = ends.get(decorated[len(before) : first]) if decorated.startswith(before) else None
    right_text = decorated[last + len(word) :]
    right = ends.get(right_text[: len(right_text) - len(after)]) if right_text.endswith(after) else None
    if left is None or right is None or decorated[first:last] not in (f'{word}"', f'{word}\\"'):
        raise RenderingError(
            "the chat template changes the text of a message in a way that is neither trimming nor JSON, so what is "
            "said cannot be appended as it is. Use a tokenizer folder whose chat_template writes texts unchanged."
        )
    return Slot(entry=slot.entry, part=slot.part, left=left, right=right, writes=writes)


def _difference(stood: str, now: str) -> str | None:
    """None where the context stands unchanged but for white space; otherwise the first place that changed."""
    old, new = "".join(stood.split()), "".join(now.split())
    if old == new:
        return None
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    readable = [re.sub(_SENTINEL, "…", text[max(0, at - 16) : at + 24]) for text in (old, new)]
    return f"the template rewrites history: where {readable[0]!r} stood it now writes {readable[1]!r}"


def _keep(cache: dict[tuple[object, ...], V], key: tuple[object, ...], value: V) -> V:
    """Store in a bounded cache; a full one starts again (shapes come in few kinds)."""
    if len(cache) >= MAX_SHAPES:
        cache.clear()
    cache[key] = value
    return value
