"""An agent of the OpenAI Agents SDK, unchanged but for its client."""

import pytest

from rollwright.record import TerminalReason
from tests.rollout.gateway.living import call_of, check, letters, live, openai_client, scripted, turns_of

agents = pytest.importorskip("agents", reason="openai-agents is not installed beside this project's pins")


@agents.function_tool
def weather(town: str) -> str:
    """The weather of a town.

    Args:
        town: its name.
    """
    return f"{town}: sun"


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_run_with_tools_keeps_every_token(renderer, api, is_streamed):
    agents.set_tracing_disabled(True)
    replies = [letters(renderer, "Looking.", [call_of("Rome"), call_of("Oslo")]), letters(renderer, "Both are fine.")]
    engine = scripted(replies)

    async def agent(base_url, api_key, task):
        async with openai_client(base_url, api_key) as client:
            kind = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
            guide = agents.Agent(
                name="Guide", instructions="Be kind.", tools=[weather], model=kind("m", openai_client=client)
            )
            if is_streamed:
                result = agents.Runner.run_streamed(guide, "Rome and Oslo?")
                async for _ in result.stream_events():
                    pass
            else:
                result = await agents.Runner.run(guide, "Rome and Oslo?")
            return {"final": result.final_output}

    done = live(renderer, agent, engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    assert done.artifacts["agent_result.json"] == b'{"final":"Both are fine."}'
    assert turns_of(done) == [list(map(int, reply.token_ids)) for reply in replies]
    assert {s.context for s in done.segments} == {0}
    assert [(r.status, r.result) for r in done.tool_calls] == [("ok", "Rome: sun"), ("ok", "Oslo: sun")]
    check(done, engine)
