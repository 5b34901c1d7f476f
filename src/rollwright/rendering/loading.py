"""From a Hugging Face tokenizer folder to a renderer."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from tokenizers import Tokenizer

from rollwright.record import Message, digest
from rollwright.rendering.codec import codec_of
from rollwright.rendering.conversation import Said
from rollwright.rendering.errors import RenderingError
from rollwright.rendering.grammar import CallGrammar, HermesGrammar, LlamaGrammar, MistralGrammar
from rollwright.rendering.parsing import ReasoningTags, TurnParser
from rollwright.rendering.probe import NO_TOOLS, TemplateReport, probe
from rollwright.rendering.renderer import Renderer
from rollwright.rendering.template import Template, TemplateSource
from rollwright.rendering.tokenizer_files import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["load_renderer", "renderer_of"]

KNOWN_GRAMMARS: tuple[CallGrammar, ...] = (
    HermesGrammar(lead="\n", pad="\n"),
    HermesGrammar(lead="", pad=""),
    HermesGrammar(lead="\n", pad=""),
    HermesGrammar(lead="", pad="\n"),
    MistralGrammar(),
    LlamaGrammar(),
)


def load_renderer(
    folder: Path, *, grammar: CallGrammar | None = None, options: Mapping[str, str | int | bool] | None = None
) -> Renderer:
    """Load tokenizer and chat template from a local folder.

    Args:
        folder: with tokenizer.json and a chat template.
        grammar: of tool calls; None: the one that the template itself writes, else Hermes.
        options: arguments of the template's own, such as `enable_thinking`.

    Raises:
        RenderingError: no such folder, no fast tokenizer, no template, or one that cannot be delta-rendered.
    """
    if not folder.is_dir():
        raise RenderingError(f"there is no tokenizer folder {str(folder)!r}; give a folder that holds tokenizer.json.")
    tokenizer = load_tokenizer(folder)
    return renderer_of(tokenizer, grammar=grammar, options=options, declared_stops=_declared_stops(folder))


def renderer_of(
    tokenizer: "PreTrainedTokenizerBase",
    *,
    grammar: CallGrammar | None = None,
    options: Mapping[str, str | int | bool] | None = None,
    declared_stops: frozenset[int] = frozenset(),
) -> Renderer:
    """A renderer of a loaded tokenizer; see `load_renderer`."""
    backend = _backend_of(tokenizer)
    if not tokenizer.chat_template:
        raise RenderingError(
            "the tokenizer has no chat template; add chat_template.jinja to its folder, or take an instruct model's."
        )
    codec = codec_of(backend)
    given = dict(options or {})
    source = _source_of(tokenizer, given)
    reasoning = _reasoning_of(str(tokenizer.chat_template), source)
    template = Template(source, codec, reasoning)
    chosen = grammar if grammar is not None else _grammar_of(source)
    eos = declared_stops | _own_stops(tokenizer)
    base = digest(
        [digest(backend.to_str()), str(tokenizer.chat_template), given, repr(chosen), repr(reasoning), sorted(eos)]
    )

    def assemble(report: TemplateReport) -> Renderer:
        parser = TurnParser(codec=codec, grammar=chosen, reasoning=reasoning, stop_token_ids=report.stop_token_ids)
        return Renderer(codec=codec, template=template, parser=parser, report=report, base=base)

    draft = probe(template, codec, reasoning, eos, lambda: None)
    return assemble(probe(template, codec, reasoning, eos, lambda: _compare(assemble(draft), backend, source)))


class _ApplyTemplate(Protocol):
    """The tokenizer's method, as it behaves where nothing is to be tokenised."""

    def __call__(self, conversation: list[dict[str, object]], /, **options: object) -> str: ...


def _own_stops(tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    eos = cast(int | None, tokenizer.eos_token_id)
    return frozenset() if eos is None else frozenset({eos})


def _backend_of(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
    if not tokenizer.is_fast:
        raise RenderingError(
            f"{type(tokenizer).__name__} has no tokenizer.json behind it; rendering needs a fast tokenizer. Save it "
            "once with transformers' converter."
        )
    return cast(Tokenizer, tokenizer.backend_tokenizer)


def _source_of(tokenizer: "PreTrainedTokenizerBase", options: Mapping[str, str | int | bool]) -> TemplateSource:
    apply = cast(_ApplyTemplate, tokenizer.apply_chat_template)

    def render(messages: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]]) -> str:
        return apply(
            [dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=True,
            **options,
        )

    return render


def _reasoning_of(template: str, source: TemplateSource) -> ReasoningTags | None:
    if "</think>" not in template:
        return None
    try:
        prompt = source([{"role": "user", "content": "x"}], [])
    except Exception:  # noqa: BLE001 - a template raises what it likes; the probe says it in a sentence
        return ReasoningTags()
    return ReasoningTags(is_opened_by_prompt=prompt.rstrip().endswith("<think>"))


def _grammar_of(source: TemplateSource) -> CallGrammar:
    """The known grammar that the template itself writes calls in; Hermes where it writes none."""
    call = {"type": "function", "id": "c12345678", "function": {"name": "probe_call_xq", "arguments": {"word": "a"}}}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "tool_calls": [call]},
    ]
    try:
        text = source(messages, [])
    except Exception:  # noqa: BLE001 - a template that refuses calls writes none
        return KNOWN_GRAMMARS[0]
    for grammar in KNOWN_GRAMMARS:
        if grammar.write([("probe_call_xq", '{"word": "a"}')]) in text and "probe_call_xq" in text:
            return grammar
    return KNOWN_GRAMMARS[0]


def _declared_stops(folder: Path) -> frozenset[int]:
    """Every stop token of generation_config.json: chat models often end a turn with a second one."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return frozenset()
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RenderingError(f"{path} cannot be read: {error}. It is a JSON object, or leave it out.") from error
    if not isinstance(read, dict):
        raise RenderingError(f"{path} holds no JSON object; write one, or leave it out.")
    found = cast("dict[str, object]", read).get("eos_token_id")
    return frozenset(found if isinstance(found, list) else [found] if isinstance(found, int) else [])


def _compare(renderer: Renderer, backend: Tokenizer, source: TemplateSource) -> str | None:
    """Deltas against the template's own rendering of a conversation, in ids; says what differs."""
    turn = renderer.encode_turn("It is 12, I think.")
    said = Said(message=Message(role="user", text="Sure? Say 1+2."), origin="user")
    opened = renderer.open([Message(role="user", text="What is 3 * 4?")], dict(NO_TOOLS.key))
    extended = renderer.extend(opened.conversation, renderer.parse(turn), [said])
    if extended.rewrites is not None:
        return None
    found = [int(i) for part in (opened.pieces, extended.pieces) for piece in part for i in piece.token_ids]
    at = sum(len(piece.token_ids) for piece in opened.pieces)
    found[at:at] = turn.tolist()
    text = source(
        [
            {"role": "user", "content": "What is 3 * 4?"},
            {"role": "assistant", "content": "It is 12, I think."},
            {"role": "user", "content": "Sure? Say 1+2."},
        ],
        [],
    )
    due = backend.encode(text, add_special_tokens=False).ids
    if found == due:
        return None
    return (
        f"deltas give {len(found)} ids where the template's own rendering gives {len(due)}: this tokenizer writes the "
        "start of a text differently from its middle; the policy sees a slightly unusual conversation"
    )
