"""The small tokenizer that is made on the spot."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rollwright.record import Message
from rollwright.rendering import RenderingError, TokenizerSpec, load_renderer, train_tokenizer
from tests.rendering.tokenizers_for_tests import CALCULATOR, TEXTS, small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(str(folder))


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def test_equal_texts_give_an_equal_folder(tmp_path):
    first, second = (train_tokenizer(TEXTS, TokenizerSpec(), tmp_path / name) for name in ("a", "b"))
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name
    assert load_renderer(first).revision(CALCULATOR) == load_renderer(second).revision(CALCULATOR)


def test_digits_newlines_and_tags_are_single_tokens(tokenizer):
    assert len(encode(tokenizer, "1234567890")) == 10
    assert len(encode(tokenizer, "12\n34")) == 5
    assert len(encode(tokenizer, "<tool_call></tool_call><|im_end|>")) == 3
    assert len(tokenizer) <= 400


def test_the_constant_part_of_a_call_is_a_few_tokens(folder):
    renderer = load_renderer(folder)
    turn = renderer.encode_turn("", [("calculator", json.dumps({"expression": "12*34"}))])
    numbers = 5  # 1 2 * 3 4
    assert len(turn) - numbers <= 10
    assert renderer.parse(turn).parsed_calls[0].tool == "calculator"


@given(st.text(max_size=30))
def test_any_text_comes_back(tokenizer, text):
    ids = encode(tokenizer, text)
    assert all(0 <= i < len(tokenizer) for i in ids)
    if not any(token in text for token in tokenizer.all_special_tokens):
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_the_template_names_the_tools_in_few_words(folder):
    renderer = load_renderer(folder)
    assert renderer.report.is_append_only and renderer.report.takes_tools and renderer.report.is_exact
    assert renderer.report.reasons == ()
    opened = renderer.open([Message(role="user", text="hi")], CALCULATOR)
    text = renderer.decode([int(i) for p in opened.pieces for i in p.token_ids])
    assert text == (
        "<|im_start|>system\ntools: calculator(expression)<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_vocabulary_that_cannot_hold_the_bytes_is_refused():
    with pytest.raises(RenderingError, match="at least 261"):
        TokenizerSpec(vocab_size=200)
