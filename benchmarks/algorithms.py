"""Rows a second of the host part of every preset: credit and weights of a whole batch, on one core.

    python benchmarks/algorithms.py [--rows 8192] [--tokens 2048] [--rounds 3] [--preset NAME ...] [--json]

Each preset runs in a process of its own, so that its peak of memory above the inputs can be told. A first, untimed call
makes the streams that the credit reads; the best of the rounds counts.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from rollwright.algorithms.composition import kept_tokens
from rollwright.algorithms.objective import CreditInputs, Objective, TokenStreams
from rollwright.algorithms.presets.table import PRESETS

PER_ROW = frozenset({"bootstrap", "greedy_reward", "quality", "is_hack"})
GROUP = 8
TURNS = 8
LIMIT_S = 3.0
LIMIT_BYTES = 2 << 30


class OnDemand(Mapping[str, torch.Tensor]):
    """Streams that are made when they are first asked for, so that the inputs hold what a credit reads and no more."""

    def __init__(self, num_rows: int, num_tokens: int, *, are_logprobs: bool) -> None:
        self._sizes = (num_rows, num_tokens)
        self._are_logprobs = are_logprobs
        self._made: dict[str, torch.Tensor] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._made:
            num_rows, num_tokens = self._sizes
            generator = torch.Generator().manual_seed(len(self._made))
            size = num_rows if name in PER_ROW else num_tokens
            values = torch.rand(size, generator=generator, dtype=torch.float64)
            self._made[name] = -values if self._are_logprobs else values
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


def make_inputs(num_rows: int, tokens: int) -> CreditInputs:
    """Rows of one length in groups of eight, with rewards of 0 and 1, eight turns a row and a reward on the way."""
    generator = torch.Generator().manual_seed(0)
    num_tokens = num_rows * tokens
    rows = torch.arange(num_rows)
    turn = (torch.arange(tokens) * TURNS) // tokens
    step_rewards = torch.zeros(num_tokens, dtype=torch.float64)
    step_rewards[:: max(1, tokens // TURNS)] = 0.1
    return CreditInputs(
        rewards=torch.randint(0, 2, (num_rows,), generator=generator).to(torch.float64),
        group_index=rows // GROUP,
        source_index=rows % 4,
        episode_index=rows,
        row_offsets=torch.arange(num_rows + 1) * tokens,
        is_truncated=torch.rand(num_rows, generator=generator) < 0.1,
        step_rewards=step_rewards,
        turn_index=turn.repeat(num_rows),
        state_index=turn.repeat(num_rows) + (rows // GROUP * TURNS).repeat_interleave(tokens),
        logprobs=OnDemand(num_rows, num_tokens, are_logprobs=True),
        values=OnDemand(num_rows, num_tokens, are_logprobs=False),
        keys={"task": rows // GROUP, "role": torch.zeros_like(rows), "parent": rows // GROUP},
    )


def keep_of(objective: Objective, inputs: CreditInputs, advantages: torch.Tensor) -> torch.Tensor | None:
    """What a `kept` denominator counts; made from the scores that stand before the update."""
    if objective.weights.counting == "structural":
        return None
    return kept_tokens(
        objective,
        TokenStreams(
            row_offsets=inputs.row_offsets,
            action_mask=torch.ones(len(advantages), dtype=torch.bool),
            advantages=advantages.float(),
            token_weights=torch.zeros_like(advantages),
            policy_versions=torch.zeros(len(advantages), dtype=torch.int32),
            logprobs={name: inputs.logprobs[name].float() for name in ("behavior", "proximal")},
            values={},
        ),
    ).keep


def host_part(objective: Objective, inputs: CreditInputs) -> None:
    """Credit, and the weights of every component."""
    advantages = objective.credit(inputs).advantages
    keep = keep_of(objective, inputs, advantages)
    objective.weights(inputs, keep)
    for regularizer in objective.regularizers:
        regularizer.weights(inputs, None)


def memory_bytes(field: str) -> int:
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Time and memory of one preset, in this process."""
    torch.set_num_threads(1)
    objective = PRESETS[name]()
    small = make_inputs(GROUP, 8)
    host_part(objective, small)
    inputs = make_inputs(options.rows, options.tokens)
    for stream in small.logprobs:
        assert inputs.logprobs[stream] is not None
    for stream in small.values:
        assert inputs.values[stream] is not None
    before = memory_bytes("VmRSS")
    best = math.inf
    for _ in range(options.rounds):
        start = time.perf_counter()
        host_part(objective, inputs)
        best = min(best, time.perf_counter() - start)
    return {
        "preset": name,
        "seconds": round(best, 3),
        "rows_per_s": round(options.rows / best),
        "gib_above_inputs": round(max(0, memory_bytes("VmHWM") - before) / (1 << 30), 2),
        "holds": best <= LIMIT_S and memory_bytes("VmHWM") - before <= LIMIT_BYTES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", nargs="*", default=None, help="names; all where left out")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.here, options)))
        return
    print(f"{options.rows} rows x {options.tokens} tokens, one core, torch {torch.__version__}", file=sys.stderr)
    for name in options.preset or PRESETS:
        sizes = [f"--rows={options.rows}", f"--tokens={options.tokens}", f"--rounds={options.rounds}"]
        ended = subprocess.run([sys.executable, __file__, "--here", name, *sizes], stdout=subprocess.PIPE, check=True)
        line = ended.stdout.decode()
        if options.json:
            print(line.strip())
            continue
        found = json.loads(line)
        print(
            f"{name:30} {found['rows_per_s']:>10,} rows/s {found['seconds']:>7.2f} s "
            f"{found['gib_above_inputs']:>6.2f} GiB{'' if found['holds'] else '   over the limit'}"
        )


if __name__ == "__main__":
    main()
