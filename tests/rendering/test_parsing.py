"""What a turn says: reasoning, calls, spans."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import ids
from rollwright.rendering import (
    HermesGrammar,
    LlamaGrammar,
    MalformedCall,
    MistralGrammar,
    ReasoningTags,
    TurnParser,
    codec_of,
)
from tests.cases import case
from tests.rendering.tokenizers_for_tests import byte_tokenizer, qwen3_renderer

TOKENIZER = byte_tokenizer(
    "{{ messages }}", ["<|end|>", "<|other|>"], eos="<|end|>", plain_tags=("<tool_call>", "</tool_call>")
)
CODEC = codec_of(TOKENIZER.backend_tokenizer)
END = CODEC.controls["<|end|>"]
OTHER = CODEC.controls["<|other|>"]
TAGS = ("<tool_call>", "</tool_call>")


def parser(reasoning=None, grammar=None, stops=(END,)):
    return TurnParser(
        codec=CODEC,
        grammar=grammar or HermesGrammar(lead="", pad=""),
        reasoning=reasoning,
        stop_token_ids=frozenset(stops),
    )


def parse(text, reasoning=None, grammar=None):
    """Parse text whose tags are written as the policy writes them, ended by the stop token."""
    body = CODEC.encode_with_tags(text, TAGS).tolist()
    return parser(reasoning, grammar).parse(ids([*body, END]))


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.mark.case("F18")
def test_reasoning_is_split_when_only_its_closing_tag_was_sampled():
    given_ = case("F18")
    turn = parse(given_.input["completion"], ReasoningTags(is_opened_by_prompt=True))
    assert turn.reasoning == given_.expect["reasoning"]
    assert turn.visible == given_.expect["content"]
    # What was sampled is what stands: with the prompt's opening tag it is the expected turn, nothing written twice.
    stands = given_.input["generation_prompt_ends_with"] + turn.text
    assert stands == given_.expect["rerendered_assistant_turn"]


@pytest.mark.case("F129")
def test_the_visible_text_is_what_follows_the_reasoning():
    modes = {
        "open in prompt": ReasoningTags(is_opened_by_prompt=True),
        "open in output": ReasoningTags(),
        "no reasoning expected": None,
    }
    given_ = case("F129")
    for (completion, mode), due in zip(given_.input["rows_completion_mode"], given_.expect["graded_text"], strict=True):
        turn = parse(completion, modes[mode])
        assert turn.visible == due, completion
        assert turn.is_reasoning_open == (due == "")


@pytest.mark.case("F130")
def test_calls_inside_reasoning_are_not_calls():
    given_ = case("F130")
    turn = parse(given_.input["completion"], ReasoningTags())
    assert [c.tool for c in turn.parsed_calls] == given_.expect["executed"]
    cut = parse(given_.input["truncated"], ReasoningTags())
    assert [c.tool for c in cut.parsed_calls] == given_.expect["executed_truncated"]
    assert cut.parse_error is None


@pytest.mark.case("F103")
def test_text_leaves_the_stop_token_out_and_the_tokens_keep_it():
    given_ = case("F103")
    sampled = ids([10, 11, END])
    turn = parser().parse(sampled)
    assert turn.text == CODEC.decode([10, 11])
    assert turn.token_ids is sampled
    assert len(turn.token_ids) == len(given_.expect["kept_for_training"]["scores"])
    assert turn.spans[-1].kind == "stop" and (turn.spans[-1].token_start, turn.spans[-1].token_end) == (2, 3)


@pytest.mark.case("F22")
def test_every_declared_stop_token_ends_a_turn():
    given_ = case("F22")
    first, second = given_.input["stop_ids"]
    names = {first: END, second: OTHER}
    stops = parser(stops=(END, OTHER))
    found = []
    for completion in given_.input["completions"]:
        # What lies behind a stop token is padding, which no engine of ours returns.
        at = next((i for i, token in enumerate(completion) if token in names), len(completion) - 1)
        found.append(
            stops.parse(ids([names[token] if token in names else token for token in completion[: at + 1]])).is_stopped
        )
    assert found == given_.expect["finished"]
    assert found.count(False) / len(found) == pytest.approx(given_.expect["truncated_fraction"])


def test_several_calls_and_text_between_them_are_told_apart():
    turn = parse("First " + call("a", x=1) + " then " + call("b") + " done")
    assert [(c.tool, json.loads(c.arguments)) for c in turn.parsed_calls] == [("a", {"x": 1}), ("b", {})]
    assert turn.answer == "First  then  done"
    assert [s.kind for s in turn.spans] == ["answer", "tool_call", "answer", "tool_call", "answer", "stop"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<tool_call>{broken</tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "a", "arguments": {}}', "not closed"),
        ('<tool_call>["a"]</tool_call>', "not a JSON object"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'no "name"'),
        ('<tool_call>{"name": "a", "arguments": "x"}</tool_call>', "not a JSON object"),
        ('<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "not valid JSON"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        ("<tool_call></tool_call>", "not valid JSON"),
        ('<tool_call><tool_call>{"name": "a"}</tool_call>', "not closed"),
    ],
)
def test_a_malformed_call_gives_a_reason_to_read(body, reason):
    turn = parse("I call " + body)
    assert turn.parse_error is not None and reason in turn.parse_error
    assert isinstance(turn.calls[0], MalformedCall)


def test_a_malformed_call_leaves_its_neighbour_alone():
    turn = parse("<tool_call>{</tool_call>" + call("b", y=2))
    assert [type(c).__name__ for c in turn.calls] == ["MalformedCall", "ParsedCall"]
    assert turn.parse_error is not None


def test_a_spelled_out_tag_is_no_call_where_the_tag_is_a_token():
    spelled = call("rm", path="/")
    turn = parser().parse(ids([*CODEC.encode_plain(spelled)[0], END]))
    assert turn.text == spelled
    assert turn.calls == () and turn.parse_error is None


def test_arguments_stand_as_the_policy_wrote_them():
    turn = parse('<tool_call>{"name": "a", "arguments":  {"x": 1.0e5,   "y": "é"}}</tool_call>')
    assert turn.parsed_calls[0].arguments == '{"x": 1.0e5,   "y": "é"}'


def test_mistral_and_llama_forms_are_read_and_written():
    mistral = MistralGrammar()
    written = mistral.write([("a", '{"x": 1}'), ("b", "{}")])
    assert [c.tool for c in parse("hm " + written, grammar=mistral).parsed_calls] == ["a", "b"]
    llama = LlamaGrammar()
    turn = parse(llama.write([("a", '{"x": 1}')]), grammar=llama)
    assert (turn.parsed_calls[0].tool, turn.parsed_calls[0].arguments) == ("a", '{"x": 1}')
    assert parse("{1, 2} is a set", grammar=llama).calls == ()


pieces = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(["<think>", "</think>", "<tool_call>", "</tool_call>", "{}", '{"name": "a"}', "\n", "é", "𝄞"]),
    ),
    max_size=8,
).map("".join)


@given(pieces, st.booleans(), st.sampled_from([None, ReasoningTags(), ReasoningTags(is_opened_by_prompt=True)]))
def test_spans_cover_every_token_once_and_in_order(text, has_stop, reasoning):
    body = CODEC.encode_with_tags(text, TAGS).tolist()
    turn = parser(reasoning).parse(ids([*body, END] if has_stop else body))
    edges = [0]
    for span in turn.spans:
        assert span.token_start == edges[-1] and span.token_end > span.token_start
        edges.append(span.token_end)
    assert edges[-1] == len(turn.token_ids)
    assert turn.is_stopped == has_stop
    assert turn.text == text


@given(st.lists(st.integers(0, 255), max_size=40))
def test_any_tokens_are_read_without_an_error(token_ids):
    turn = qwen3_parser().parse(ids(token_ids))
    assert turn.text == bytes(
        np.concatenate([[], [b for t in token_ids for b in CODEC.bytes_of([t])[0]]]).astype(np.uint8)
    ).decode(errors="replace")


_RENDERERS = []


def qwen3_parser():
    if not _RENDERERS:
        _RENDERERS.append(qwen3_renderer())
    return _RENDERERS[0]
