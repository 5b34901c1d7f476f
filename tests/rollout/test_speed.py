"""How many turns a second the driver and the renderer carry, beside an engine that costs nothing."""

import asyncio
import json
import time

import pytest

from rollwright.record import StepResult, ToolResult
from rollwright.rollout import SystemClock, run_episode
from tests.rollout.fakes import FakeEngine, FakeEnvironment, observe, spec_of, whole


async def calculate(request):
    return ToolResult(call_id=request.call_id, status="ok", text=str(len(request.arguments) * 97))


@pytest.mark.slow
def test_a_step_of_64_episodes_drives_2000_turns_a_second(renderer):
    call = renderer.encode_turn("", [("calculator", json.dumps({"expression": "23*41"}))])
    answer = renderer.encode_turn("The answer is 42.")
    steps = [observe(), observe(), StepResult(observations=())]

    async def run(step):
        engine = FakeEngine(lambda request, number: whole(call if number < 128 else answer))
        async with asyncio.TaskGroup() as group:
            for at in range(64):
                environment = FakeEnvironment([observe(f"What is {at} * {step}?"), *steps], {"calculator": calculate})
                group.create_task(
                    run_episode(
                        spec_of(group_id=at, slot=step),
                        engines={"policy": engine},
                        environment=environment,
                        renderer=renderer,
                        clock=SystemClock(),
                    )
                )
        return len(engine.requests)

    rates = []
    for step in range(8):
        started = time.process_time()
        turns = asyncio.run(run(step))
        assert turns == 192
        rates.append(turns / (time.process_time() - started))
    assert max(rates) > 2_000, rates
