"""How many tool turns a second the scripted engine drives through the world of arithmetic, with everything around it.

    OMP_NUM_THREADS=1 python benchmarks/turns.py --episodes 256 --calls 8

Each episode asks the calculator in every turn but the last: driver, renderer, parser, calculator and environment are
real, the engine costs nothing. One process, medians over several rounds;
the second line tells what a quiet core would give.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from rollwright.engines import ScriptedEngine
from rollwright.learner.machine import spare_imported_objects
from rollwright.recipes.worlds import load_world
from rollwright.record import GenerationRequest, Sampling
from rollwright.rendering import TokenizerSpec, load_renderer, train_tokenizer
from rollwright.rollout import EpisodeSpec, Limits, SystemClock, run_episode
from rollwright.tasks import SplitSizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--together", type=int, default=64)
    asked = parser.parse_args()
    world = load_world("arithmetic", {"max_calls": asked.calls})
    tasks = [t for s in world.tasks(SplitSizes(train=64, held_out=4), 0) for t in s.train]
    with tempfile.TemporaryDirectory() as folder:
        said = [json.dumps({"expression": "23*41"}), "answer: 42", "calculator", *(t.payload for t in tasks)]
        train_tokenizer(iter(said * 4), TokenizerSpec(vocab_size=384, model_max_tokens=4096), Path(folder))
        renderer = load_renderer(Path(folder))
    call = renderer.encode_turn("", [("calculator", json.dumps({"expression": "23*41"}))]).tolist()
    answer = renderer.encode_turn("answer: 42").tolist()

    async def run() -> int:
        asked_for: dict[str, int] = {}

        def reply(request: GenerationRequest) -> list[int]:
            turn = asked_for[request.session] = asked_for.get(request.session, 0) + 1
            return call if turn <= asked.calls else answer

        engine = ScriptedEngine(reply, max_context_tokens=4096)
        places = asyncio.Semaphore(asked.together)

        async def one(at: int) -> int:
            spec = EpisodeSpec(
                purpose="train",
                stage="rl",
                group_id=at,
                slot=0,
                attempt=0,
                task=tasks[at % len(tasks)],
                reset_seed=at,
                episode_seed=at,
                sampling=Sampling(),
                limits=Limits(turns=asked.calls + 1, calls=asked.calls, context_tokens=4096),
            )
            async with places:
                trajectory = await run_episode(
                    spec,
                    engines={"policy": engine},
                    environment=world.environment,
                    renderer=renderer,
                    clock=SystemClock(),
                )
            return sum(one.status == "ok" for one in trajectory.tool_calls)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(at)) for at in range(asked.episodes)]
        return sum(task.result() for task in running)

    spare_imported_objects()  # As every run does.
    rates: list[float] = []
    cpu_rates: list[float] = []
    for _ in range(asked.rounds):
        started, cpu_started = time.perf_counter(), time.process_time()
        calls = asyncio.run(run())
        assert calls == asked.episodes * asked.calls, calls
        rates.append(calls / (time.perf_counter() - started))
        cpu_rates.append(calls / (time.process_time() - cpu_started))
    print(f"{statistics.median(rates):,.0f} tool turns a second ({min(rates):,.0f} to {max(rates):,.0f})")
    print(f"{statistics.median(cpu_rates):,.0f} a second of CPU ({min(cpu_rates):,.0f} to {max(cpu_rates):,.0f})")


if __name__ == "__main__":
    main()
