"""What kind of template is this? Asked once, when a tokenizer is loaded, so that nothing is re-tokenised in silence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollwright.rendering.codec import Codec
from rollwright.rendering.conversation import Toolset
from rollwright.rendering.errors import RenderingError
from rollwright.rendering.parsing import ReasoningTags
from rollwright.rendering.schemas import tool_definitions
from rollwright.rendering.template import ASSISTANT, THINKING, Template

__all__ = ["NO_TOOLS", "PROBE_TOOLS", "TemplateReport", "probe"]

NO_TOOLS = Toolset(key=(), definitions=())
_PROBE = {
    "probe_tool_xq": '{"description": "Looks up a word.", "type": "object", '
    '"properties": {"word": {"type": "string"}}, "required": ["word"]}'
}
PROBE_TOOLS = Toolset(key=tuple(_PROBE.items()), definitions=tool_definitions(_PROBE))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """What a template does, with the reasons in words for a person."""

    is_append_only: bool
    """True where no probe made the template change what stood before."""
    takes_tools: bool
    """False: tools are described in words in the system message."""
    has_reasoning: bool
    opens_reasoning: bool
    """True where the generation prompt opens a reasoning block."""
    is_exact: bool
    """True where deltas gave the ids of the template's own full rendering in every probe."""
    turn_end_id: int | None
    """What the template writes behind a turn."""
    stop_token_ids: frozenset[int]
    reasons: tuple[str, ...]
    """What is out of the ordinary, one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """A conversation to try: what stands, the turn, what is said."""

    name: str
    before: tuple[str, ...]
    turn: str
    said: tuple[str, ...]
    is_needed: bool


def probe(
    template: Template,
    codec: Codec,
    reasoning: ReasoningTags | None,
    eos: frozenset[int],
    check: Callable[[], str | None],
) -> TemplateReport:
    """Try the shapes that episodes have.

    Args:
        template: as loaded.
        codec: of its tokenizer.
        reasoning: the family's tags, or None.
        eos: stop tokens that the folder declares.
        check: compares deltas with the template's own rendering; says what differs.

    Raises:
        RenderingError: where even a plain second turn cannot be appended.
    """
    reasons: list[str] = []
    rewrites: list[str] = []
    for shape in _shapes(reasoning):
        said = _try(template, shape)
        if said is not None:
            reasons.append(said)
            if "rewrites history" in said:
                rewrites.append(said)
    takes_tools = _takes_tools(template)
    if not takes_tools:
        reasons.append("the template has no place for tools: they are described in the system message")
    difference = check()
    if difference is not None:
        reasons.append(difference)
    end = _turn_end(template, codec)
    if not eos and end is None:
        raise RenderingError(
            "neither the chat template nor the tokenizer says which token ends a turn. Set eos_token in "
            "tokenizer_config.json, or eos_token_id in generation_config.json."
        )
    return TemplateReport(
        is_append_only=not rewrites,
        takes_tools=takes_tools,
        has_reasoning=reasoning is not None,
        opens_reasoning=reasoning is not None and reasoning.is_opened_by_prompt,
        is_exact=difference is None,
        turn_end_id=end,
        stop_token_ids=eos | ({end} if end is not None else frozenset()),
        reasons=tuple(reasons),
    )


def _shapes(reasoning: ReasoningTags | None) -> Sequence[_Shape]:
    plain = [
        _Shape(name="a second user message", before=("user",), turn=ASSISTANT, said=("user",), is_needed=True),
        _Shape(name="a tool's result", before=("system", "user"), turn=ASSISTANT, said=("tool",), is_needed=False),
        _Shape(name="two results at once", before=("user",), turn=ASSISTANT, said=("tool", "tool"), is_needed=False),
        _Shape(
            name="a user message after a tool's result",
            before=("user", ASSISTANT, "tool"),
            turn=ASSISTANT,
            said=("user",),
            is_needed=False,
        ),
    ]
    if reasoning is None:
        return plain
    return [
        *plain,
        _Shape(
            name="a tool's result after reasoning", before=("user",), turn=THINKING, said=("tool",), is_needed=False
        ),
        _Shape(name="a user message after reasoning", before=("user",), turn=THINKING, said=("user",), is_needed=False),
    ]


def _try(template: Template, shape: _Shape) -> str | None:
    known = (*shape.before, shape.turn)
    try:
        frame = template.continuation(NO_TOOLS, (*known, *shape.said), len(known))
    except RenderingError as error:
        if shape.is_needed:
            raise
        return f"{shape.name}: {error}"
    return None if frame.rewrites is None else f"{shape.name}: {frame.rewrites}; such turns become branches"


def _takes_tools(template: Template) -> bool:
    try:
        return PROBE_TOOLS.key[0][0] in template.text(PROBE_TOOLS, ("user",))
    except RenderingError:
        return False


def _turn_end(template: Template, codec: Codec) -> int | None:
    """The first control token behind a turn, where nothing but white space stands before it."""
    first = template.continuation(NO_TOOLS, ("user", ASSISTANT, "user"), 2).items[0]
    if not isinstance(first, tuple):
        return None
    at = next((i for i, token in enumerate(first) if token in codec.control_ids), len(first))
    return first[at] if at < len(first) and not codec.decode(first[:at]).strip() else None
