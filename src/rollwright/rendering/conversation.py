"""What the renderer gives and remembers: pieces of tokens with their origin, and the conversation behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollwright.record import Ids, Message, Origin
from rollwright.rendering.parsing import ParsedTurn

__all__ = ["Conversation", "Entry", "Piece", "Rendered", "Said", "Toolset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something that the environment says, with the origin its tokens will have."""

    message: Message
    origin: Origin
    call_id: str | None = None
    """The call that a tool's message answers."""
    tool: str | None = None


Entry = Said | ParsedTurn
"""What was said to the policy, or a turn as sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The tools of an episode as the template wants them."""

    key: tuple[tuple[str, str], ...]
    definitions: tuple[Mapping[str, object], ...]
    """With a placeholder where a foreign text would read as a control token."""
    literals: Mapping[str, str] = field(default_factory=dict[str, str])
    """Placeholder to the text that it stands for, which is only ever encoded as text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conversation:
    """A context's messages so far. Immutable: `extend` gives a new one."""

    tools: Toolset
    entries: tuple[Entry, ...]
    roles: tuple[str, ...]
    """One an entry; what the shape of the template's text depends on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Tokens of one origin, in order, to become a segment."""

    origin: Origin
    token_ids: Ids
    call_id: str | None = None
    entry: int | None = None
    """The conversation's entry that this piece renders; None for what the template writes."""
    first_token: int | None = None
    """In a copied turn: where the piece begins in the turn's own tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rendered:
    """Pieces up to and with the generation prompt."""

    pieces: tuple[Piece, ...]
    conversation: Conversation
    rewrites: str | None = None
    """None: the pieces follow what is there. Otherwise why not: they are a whole new context, with copies."""
