"""A server of completions as an engine: it keeps the protocol, or is refused at the start for what it does not give."""

import asyncio
from typing import Any

import pytest

from rollwright.engines import EngineError, EngineLostError
from rollwright.engines.conformance import Subject, varied_prompts
from rollwright.engines.served.openai import OpenAiSettings, open_openai
from tests.engines.letters import MAX_CONTEXT, as_text
from tests.engines.served.completions import serving
from tests.engines.served.fakes import VOCAB, reference
from tests.engines.small import draw, request_of
from tests.engines.test_conformance import failed, findings


def settings_at(address, **changes: Any):
    fields: dict[str, Any] = {"address": address, "vocab": VOCAB, "max_context_tokens": MAX_CONTEXT, "num_slots": 4}
    return OpenAiSettings(**{**fields, **changes})


def test_it_passes_every_item_but_those_on_new_weights():
    with serving() as address:
        subject = Subject(
            open=lambda: open_openai(settings_at(address), as_text),
            reference=reference,
            prompts=varied_prompts(VOCAB, 16),
            decode_text=as_text,
            patience_s=60.0,
        )
        found = findings(subject)
    assert not failed(found)
    assert [name for name, one in found.items() if one.status == "skipped"] == ["new weights", "broken weights"]


@pytest.mark.parametrize(
    ("lack", "sentence"),
    [
        ("token ids", "return_token_ids"),
        ("logprobs", r"log-probabilities \(`logprobs`\)"),
        ("sampled logprobs", "--logprobs-mode processed_logprobs"),
        ("prompts of ids", "prompt should be text"),
        ("one model", "serves tiny, other; name the model"),
    ],
)
def test_what_a_server_does_not_give_is_refused_by_name(lack, sentence):
    with serving(lack) as address, pytest.raises(EngineError, match=sentence):
        open_openai(settings_at(address))


def test_contexts_longer_than_the_servers_are_refused():
    with serving() as address, pytest.raises(EngineError, match="takes 64 tokens of context"):
        open_openai(settings_at(address, max_context_tokens=65))


def test_a_model_that_the_server_has_not_is_refused():
    with serving() as address, pytest.raises(EngineError, match="does not serve 'big'; it has tiny"):
        open_openai(settings_at(address, model="big"))


def test_an_address_where_nobody_answers_is_lost():
    with serving() as address:
        pass
    with pytest.raises(EngineLostError, match="does not answer"):
        open_openai(settings_at(address))


def test_a_server_that_leaves_in_mid_turn_is_lost_to_the_turn():
    async def run(address):
        engine = open_openai(settings_at(address))
        with pytest.raises(EngineLostError, match="ended in mid-turn"):
            await draw(engine, request_of(1, max_tokens=20, stop_token_ids=frozenset()))

    with serving("staying power") as address:
        asyncio.run(run(address))


def test_a_caller_that_is_cancelled_in_mid_turn_leaves_no_request():
    async def run(address):
        engine = open_openai(settings_at(address))
        turn = asyncio.create_task(draw(engine, request_of(1, max_tokens=20, stop_token_ids=frozenset())))
        await asyncio.sleep(0.5)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert not engine._running

    with serving("speed") as address:
        asyncio.run(run(address))


def test_weights_are_refused():
    async def run(address):
        engine = open_openai(settings_at(address))
        assert engine.capabilities.swaps == frozenset()
        with pytest.raises(EngineError, match="drain"):
            await engine.load_weights(None, "drain")  # pyright: ignore[reportArgumentType] - it is not looked at

    with serving() as address:
        asyncio.run(run(address))
