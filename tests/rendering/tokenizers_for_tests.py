"""Tokenizers that tests make on the spot, with templates of several kinds."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rollwright.rendering import TokenizerSpec, load_renderer, renderer_of, train_tokenizer

__all__ = [
    "CALCULATOR",
    "QWEN3_TEMPLATE",
    "SYSTEM_IN_LAST_USER_TEMPLATE",
    "TEXTS",
    "byte_tokenizer",
    "own_rendering",
    "qwen3_renderer",
    "qwen3_tokenizer",
    "small_folder",
    "small_renderer",
]

TEXTS = tuple(
    [f"What is {a} * {b}?" for a in range(20, 40) for b in range(9)]
    + [
        '<tool_call>{"name": "calculator", "arguments": {"expression": "12*34"}}</tool_call>',
        "The answer is 42.",
        "You are a careful assistant. Use the calculator.",
        "error: the tool call is not valid JSON",
    ]
    * 60
)

CALCULATOR = {
    "calculator": json.dumps(
        {
            "type": "function",
            "function": {
                "name": "calculator",
                "description": "Work out an expression.",
                "parameters": {
                    "type": "object",
                    "properties": {"expression": {"type": "string"}},
                    "required": ["expression"],
                },
            },
        }
    )
}

# The parts of the Qwen3 template that matter here: reasoning is kept behind the last user message and stripped before
# it, tool results are user turns, neighbours share one.
QWEN3_TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
{%- if not ns.found and message.role == 'user' %}{%- set ns.found = true %}
{%- set ns.last = (messages|length - 1) - loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- elif message.role == 'assistant' %}
{%- set content = message.content %}{%- set thought = '' %}
{%- if '</think>' in content %}
{%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{%- if loop.index0 > ns.last and (loop.last or thought) %}
{{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
{%- else %}{{- '<|im_start|>assistant\\n' + content }}{%- endif %}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}
{%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
{%- if call.function %}{%- set call = call.function %}{%- endif %}
{{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + (call.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

# The older Mistral manner: the system text stands in the last user message.
SYSTEM_IN_LAST_USER_TEMPLATE = """\
{%- if messages[0].role == 'system' %}{%- set system = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}{%- set rest = messages %}{%- endif %}
{%- for message in rest %}
{%- if message.role == 'user' %}
{%- if loop.last and system is defined %}{{- '[INST] ' + system + '\\n\\n' + message.content + '[/INST]' }}
{%- else %}{{- '[INST] ' + message.content + '[/INST]' }}{%- endif %}
{%- elif message.role == 'assistant' %}{{- ' ' + message.content + '</s>' }}
{%- else %}{{- raise_exception('only user and assistant') }}{%- endif %}
{%- endfor %}
"""


def own_rendering(tokenizer, messages, *, tools=None, prompt=True) -> list[int]:
    """What the tokenizer itself makes of a whole conversation."""
    text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=prompt)
    return tokenizer(str(text), add_special_tokens=False)["input_ids"]


def small_folder(folder: Path) -> Path:
    """Our own small tokenizer, with our own template."""
    return train_tokenizer(TEXTS, TokenizerSpec(vocab_size=400), folder)


def small_renderer(folder: Path):
    """Its renderer."""
    return load_renderer(small_folder(folder))


def byte_tokenizer(
    template: str, controls: list[str], *, eos: str, plain_tags: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """A tokenizer of single bytes with these control tokens; `plain_tags` are added tokens that are not special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in controls])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in plain_tags])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos, clean_up_tokenization_spaces=False)
    fast.chat_template = template
    return fast


def qwen3_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, the control tokens of Qwen3, and its template."""
    return byte_tokenizer(
        QWEN3_TEMPLATE,
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        eos="<|im_end|>",
        plain_tags=("<tool_call>", "</tool_call>", "<think>", "</think>"),
    )


def qwen3_renderer():
    """Its renderer."""
    return renderer_of(qwen3_tokenizer())
