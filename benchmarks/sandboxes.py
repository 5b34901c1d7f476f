"""What the wall costs: a warm call, a cold sandbox, and many episodes beside the same programs run bare.

    python benchmarks/sandboxes.py [--episodes 64] [--calls 4] [--rounds 3]

Bare is `python -I -S -c PROGRAM` as a process of its own, as many at once as there are cores. The variants are run in
turns, so that what else the machine does falls on all of them; medians are printed, and ratios compared.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time

from rollwright.sandboxes import Sandboxes, SandboxProfile, open_sandboxes

PROGRAM = """
import math, json
total = sum(math.isqrt(n) for n in range(60_000))
print(json.dumps({"total": total}))
"""


def spent_cpu_s() -> float:
    """CPU time of this process and of those that ended below it."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


async def warm_calls(pool: Sandboxes, count: int) -> dict[str, float]:
    times: dict[str, list[float]] = {"python": [], "program": [], "shell": []}
    async with pool.take() as sandbox:
        await sandbox.python("1")
        for _ in range(count):
            for kind, call, code in (
                ("python", sandbox.python, "1 + 1"),
                ("program", sandbox.program, "print(1 + 1)"),
                ("shell", sandbox.shell, "true"),
            ):
                start = time.perf_counter()
                await call(code)
                times[kind].append(time.perf_counter() - start)
    return {kind: statistics.median(values) for kind, values in times.items()}


async def cold_sandboxes(pool: Sandboxes, count: int) -> float:
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        async with pool.take() as sandbox:
            await sandbox.python("1")
            times.append(time.perf_counter() - start)
    return statistics.median(times)


async def walled_episodes(pool: Sandboxes, episodes: int, calls: int) -> None:
    async def episode() -> None:
        async with pool.take() as sandbox:
            for _ in range(calls):
                result = await sandbox.program(PROGRAM, wall_s=60)
                assert result.status == "ok", result

    await asyncio.gather(*(episode() for _ in range(episodes)))


def bare_programs(count: int) -> None:
    running: list[subprocess.Popen[bytes]] = []
    for _ in range(count):
        if len(running) >= (os.cpu_count() or 1):
            running.pop(0).communicate()
        command = [sys.executable, "-I", "-S", "-c", PROGRAM]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    for process in running:
        process.communicate()


def measure(episodes: int, calls: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """CPU and wall seconds of the walled episodes, opening and closing the pool included, and of the bare programs."""
    spent, start = spent_cpu_s(), time.perf_counter()
    pool = open_sandboxes(SandboxProfile(), num_warm=2, max_open=64)
    try:
        asyncio.run(walled_episodes(pool, episodes, calls))
    finally:
        pool.close()
    walled = spent_cpu_s() - spent, time.perf_counter() - start
    spent, start = spent_cpu_s(), time.perf_counter()
    bare_programs(episodes * calls)
    return walled, (spent_cpu_s() - spent, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warm = open_sandboxes(SandboxProfile(), num_warm=2)
    cold = open_sandboxes(SandboxProfile(), num_warm=0)
    try:
        for kind, seconds in asyncio.run(warm_calls(warm, 200)).items():
            print(f"warm {kind} call: {seconds * 1e3:.2f} ms (median)")
        print(f"cold sandbox with its first call: {asyncio.run(cold_sandboxes(cold, 40)) * 1e3:.1f} ms (median)")
    finally:
        warm.close()
        cold.close()
    ratios: list[float] = []
    for _ in range(options.rounds):
        (walled_s, walled_wall_s), (bare_s, bare_wall_s) = measure(options.episodes, options.calls)
        ratios.append(walled_s / bare_s)
        print(
            f"{options.episodes} episodes of {options.calls} programs: {walled_s:.2f} s CPU in {walled_wall_s:.2f} s "
            f"({walled_s / walled_wall_s:.2f} cores); bare {bare_s:.2f} s CPU in {bare_wall_s:.2f} s "
            f"({bare_s / bare_wall_s:.2f} cores); ratio {walled_s / bare_s:.2f}"
        )
    print(f"CPU against bare: {statistics.median(ratios):.2f} (median of {len(ratios)})")


if __name__ == "__main__":
    main()
