"""A small byte-level tokenizer made on the spot, with a chat template that takes tools.

    folder = train_tokenizer(texts, TokenizerSpec(vocab_size=400), folder)

Digits and newlines are tokens of their own; everything between them may merge, so that the constant parts of a call
(`{"name": "calculator", "arguments": …`) become a few tokens. Any text still encodes: all 256 bytes are there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from rollwright.rendering.errors import RenderingError

__all__ = ["CHAT_TEMPLATE", "SPECIAL_TOKENS", "TokenizerSpec", "train_tokenizer"]

SPECIAL_TOKENS = ("<|pad|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
"""In the order of their ids, from 0."""

CHAT_TEMPLATE = """\
{%- macro signature(tool) -%}
{%- set f = tool.function if tool.function is defined else tool -%}
{{- f.name }}({{ f.parameters.properties.keys() | join(', ') if f.parameters is defined and f.parameters.properties }})
{%- endmacro -%}
{%- set turns = messages -%}
{%- if tools or messages[0].role == 'system' -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages[0].role == 'system' -%}
{{- messages[0].content -}}
{%- set turns = messages[1:] -%}
{{- '\\n' if tools -}}
{%- endif -%}
{%- if tools -%}
{{- 'tools:' -}}
{%- for tool in tools -%}{{- ' ' + signature(tool) -}}{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in turns -%}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') -}}
{%- for call in message.tool_calls or [] -%}
{%- set f = call.function if call.function is defined else call -%}
{{- '<tool_call>{"name": ' + (f.name | tojson) + ', "arguments": ' + (f.arguments | tojson) + '}</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
"""ChatML with tools: signatures in the system turn, Hermes calls in tags that are tokens, a tool turn a result."""

HEADERS = ("system", "user", "assistant", "tool", "tools:")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Size and limits of a tokenizer to be trained."""

    vocab_size: int = 400
    """Special tokens and the 256 bytes included; fewer where the texts give no more merges."""
    max_token_characters: int = 24
    """No token is longer, or a constant prompt becomes one token."""
    model_max_tokens: int = 4096

    def __post_init__(self) -> None:
        """Refuse a vocabulary that cannot hold the bytes."""
        least = 256 + len(SPECIAL_TOKENS)
        if self.vocab_size < least:
            raise RenderingError(
                f"vocab_size is {self.vocab_size}; a byte-level tokenizer needs at least {least}: 256 bytes and "
                f"{len(SPECIAL_TOKENS)} special tokens."
            )


def train_tokenizer(texts: Iterable[str], spec: TokenizerSpec, folder: Path) -> Path:
    """Train on texts and save as a Hugging Face folder.

    Args:
        texts: what will be said in episodes: tasks, turns with their calls, results. Equal texts, equal tokenizer.
        spec: sizes.
        folder: to write tokenizer.json, tokenizer_config.json and chat_template.jinja into; made if missing.

    Returns:
        The folder.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d|\n|[^\d\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocab_size,
        min_frequency=2,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=spec.max_token_characters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_texts(texts), trainer)
    from transformers import PreTrainedTokenizerFast  # it brings torch along

    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        clean_up_tokenization_spaces=False,
        model_max_length=spec.model_max_tokens,
    )
    fast.chat_template = CHAT_TEMPLATE
    folder.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(str(folder))
    return folder


def _training_texts(texts: Iterable[str]) -> Iterable[str]:
    """The texts cut at special tokens, and the headers of turns as often as there are texts."""
    for text in texts:
        pieces = [text]
        for token in SPECIAL_TOKENS:
            pieces = [part for piece in pieces for part in piece.split(token)]
        yield from pieces
        yield from HEADERS
