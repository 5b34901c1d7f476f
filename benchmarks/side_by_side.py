"""What decoding and learning get done side by side: as two threads of one process, and as two processes.

    python benchmarks/side_by_side.py [--seconds 4] [--rounds 3] [--models default 5M]

The embedded engine decodes without a pause, and a learner makes one update after the other; each is counted in tokens a
second, alone and beside the other. What they get done together is the sum of their shares of the best that each does
alone, with one thread of torch or with two: 1.00 is what running one after the other gets done in the same time. The
arms are run in turns, each in fresh processes, so that what else the machine does falls on all of them; medians are
shown. Nothing is handed over between the two: no episodes, no weights.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from made_episodes import Shape, made_groups

from rollwright.algorithms import grpo
from rollwright.batches import BatchRules, StepBatch, plan_step
from rollwright.engines.embedded import EmbeddedEngine, EmbeddedSettings, open_engine
from rollwright.learner.causal_learner import CausalLearner, LearnerSettings, make_learner
from rollwright.learner.machine import set_threads, spare_imported_objects
from rollwright.learner.models import ModelShape, make_model
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from rollwright.record import GenerationRequest, Sampling, ids

Role = Literal["decode", "learn"]
ROLES: tuple[Role, ...] = ("decode", "learn")
ROOT = Path(__file__).parents[1]
SHAPES = {
    "default": ModelShape(
        vocab_size=384, hidden_size=128, num_layers=2, num_heads=4, num_kv_heads=4, intermediate_size=256
    ),
    "5M": ModelShape(
        vocab_size=2048, hidden_size=288, num_layers=5, num_heads=6, num_kv_heads=2, intermediate_size=768
    ),
}
GROUPS, SIZE = 16, 8
PROMPT_TOKENS, TURN_TOKENS = 24, 24
SAMPLING = Sampling()


@dataclass(frozen=True)
class Arm:
    """What runs at once: the roles of each process, and the threads of torch that each process has."""

    name: str
    processes: tuple[tuple[Role, ...], ...]
    threads: int


ALONE = tuple(Arm(f"{role} alone, {n} of torch", ((role,),), n) for role in ROLES for n in (1, 2))
TOGETHER = (
    Arm("one process, 1 of torch", (ROLES,), 1),
    Arm("one process, 2 of torch", (ROLES,), 2),
    Arm("two processes, 1 of torch each", (("decode",), ("learn",)), 1),
)


def make_batch(vocabulary: int) -> StepBatch:
    """Episodes of a prompt and a turn, every second of which is rewarded."""
    shape = Shape(
        num_tokens=GROUPS * SIZE * (PROMPT_TOKENS + TURN_TOKENS),
        group_size=SIZE,
        prompt_tokens=PROMPT_TOKENS,
        turn_tokens=TURN_TOKENS + 1,  # Above the limit, so that each turn has just as many as that.
        turn_limit=TURN_TOKENS,
        vocabulary=vocabulary,
        paid="every second",
        max_turns=1,
        spread=0.0,
    )
    eligible: frozenset[tuple[str, str | None]] = frozenset({("policy", "policy")})
    return plan_step(made_groups(shape), step=1, objective=grpo(), eligible=eligible, rules=BatchRules(max_lag=0))


class Window:
    """Tokens of a role, counted while the window is open."""

    def __init__(self) -> None:
        self.opens_at = self.closes_at = float("inf")
        self.tokens: dict[Role, int] = dict.fromkeys(ROLES, 0)

    def open(self, seconds: float) -> None:
        self.opens_at = time.perf_counter()
        self.closes_at = self.opens_at + seconds

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.closes_at

    def count(self, role: Role, tokens: int, began: float) -> None:
        """Tokens that were made since `began`; of what stands out of the window, its part does not count."""
        now = time.perf_counter()
        inside = min(now, self.closes_at) - max(began, self.opens_at)
        if inside > 0:
            self.tokens[role] += round(tokens * inside / (now - began))


async def draw_turns(engine: EmbeddedEngine, window: Window, row: int, vocabulary: int) -> None:
    """One turn after the other."""
    prompt = np.random.default_rng(row // SIZE).integers(2, vocabulary, PROMPT_TOKENS)
    for number in range(row, 10**9, GROUPS * SIZE):
        if window.is_over:
            return
        request = GenerationRequest(
            request_id=f"r{number}",
            policy="policy",
            session=f"s{number}",
            context=0,
            share=f"g{number // SIZE}",
            token_ids=ids(prompt),
            sampling=SAMPLING,
            max_tokens=TURN_TOKENS,
            deadline_s=600,
            seed=number,
            stop_token_ids=frozenset(),
        )
        began = time.perf_counter()
        async for _ in engine.generate(request):
            pass
        window.count("decode", TURN_TOKENS, began)
        await engine.release(request.session)


async def decode(window: Window, shape: ModelShape, ready: asyncio.Event) -> None:
    settings = EmbeddedSettings(num_slots=GROUPS * SIZE, max_context_tokens=192)
    engine = open_engine(make_model(shape, seed=0), settings, lambda manifest: {})
    try:
        async with asyncio.TaskGroup() as running:
            for row in range(GROUPS * SIZE):
                running.create_task(draw_turns(engine, window, row, shape.vocab_size))
            ready.set()
    finally:
        await engine.close()


def learn(learner: CausalLearner, batch: StepBatch, window: Window) -> None:
    update = 0
    while not window.is_over:
        update += 1
        began = time.perf_counter()
        learner.train(batch, grpo(), first_update=update)
        window.count("learn", len(batch.token_ids), began)


async def play(roles: Sequence[Role], options: argparse.Namespace) -> dict[Role, float]:
    """Tokens a second of each role in this process, from a line on standard input on."""
    shape, window, ready = SHAPES[options.here], Window(), asyncio.Event()
    loop = asyncio.get_running_loop()
    learning: Future[None] | None = None
    with ThreadPoolExecutor(2) as threads:
        async with asyncio.TaskGroup() as running:
            if "learn" in roles:
                settings = LearnerSettings(optimizer=OptimizerSettings(schedule=Schedule(learning_rate=1e-5)))
                learner = make_learner(make_model(shape, seed=0), settings)
                learning = threads.submit(learn, learner, make_batch(shape.vocab_size), window)
            if "decode" in roles:
                running.create_task(decode(window, shape, ready))
                await ready.wait()
            await asyncio.sleep(options.seconds / 4)  # Until all is warm.
            print("ready", flush=True)
            await loop.run_in_executor(threads, sys.stdin.readline)
            window.open(options.seconds)
        if learning is not None:
            await asyncio.wrap_future(learning)
    return {role: window.tokens[role] / options.seconds for role in roles}


def measure(arm: Arm, model: str, seconds: float) -> dict[Role, float]:
    """Tokens a second by role; every process of the arm begins to count at the same moment."""
    running: list[subprocess.Popen[str]] = []
    for roles in arm.processes:
        command = [sys.executable, __file__, "--here", model, "--roles", *roles]
        command += ["--threads", str(arm.threads), "--seconds", str(seconds)]
        running.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", arm.name
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found: dict[Role, float] = {}
    for process in running:
        found |= json.loads(process.communicate()[0].splitlines()[-1])
    return found


@dataclass
class Rates:
    """Tokens a second by arm and role, one entry a round."""

    of: dict[tuple[str, Role], list[float]] = field(default_factory=dict[tuple[str, Role], list[float]])

    def add(self, arm: Arm, found: dict[Role, float]) -> None:
        for role, rate in found.items():
            self.of.setdefault((arm.name, role), []).append(rate)

    def alone(self, role: Role) -> float:
        """The best with any number of threads."""
        return max(statistics.median(rates) for (name, of), rates in self.of.items() if of == role and "alone" in name)

    def line(self, arm: Arm) -> str:
        rates: dict[Role, float] = {
            role: statistics.median(self.of[arm.name, role]) for roles in arm.processes for role in roles
        }
        told = "".join(f"{rates[role]:10,.0f}" if role in rates else " " * 10 for role in ROLES)
        together = sum(rate / self.alone(role) for role, rate in rates.items())
        return f"{arm.name:32}{told}{together:10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--here", choices=list(SHAPES), help=argparse.SUPPRESS)
    parser.add_argument("--roles", nargs="*", default=(), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        set_threads(options.threads)
        spare_imported_objects()
        print(json.dumps(asyncio.run(play(options.roles, options))))
        return
    for model in options.models:
        count = sum(p.numel() for p in make_model(SHAPES[model], seed=0).parameters())
        rates = Rates()
        for _ in range(options.rounds):
            for arm in (*ALONE, *TOGETHER):
                rates.add(arm, measure(arm, model, options.seconds))
        print(f"{model}: {count / 1e6:.2f} million parameters, torch {torch.__version__}; tokens a second")
        print(f"{'':32}{'decoded':>10}{'learned':>10}{'together':>10}")
        for arm in (*ALONE, *TOGETHER):
            print(rates.line(arm), flush=True)


if __name__ == "__main__":
    main()
