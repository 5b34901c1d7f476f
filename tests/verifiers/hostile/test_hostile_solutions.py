"""Programs that mean to be paid without being right, in the sandbox that `unit_tests` opens."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rollwright.recipes.build.named_verifiers import NamedVerifier, named_verifier
from tests.verifiers.hostile.attacks import Attack, Earned, read_attacks, verified

ATTACKS = read_attacks("programs.jsonl")
CALLS: list[dict[str, Any]] = [
    {"args": [[1, 2, 3]], "expected": 6},
    {"args": [[]], "expected": 0},
    {"args": [[1]], "expected": 1},
    {"args": [[-1, -2]], "expected": -3},
]
STREAMS = [
    {"stdin": "1 2 3\n", "expected": "6"},
    {"stdin": "0 0\n", "expected": "0"},
    {"stdin": "-1 -2\n", "expected": "-3"},
    {"stdin": "1000000000 7\n", "expected": "1000000007"},
]
UNPAID_S = 0.5
"""Of a program that is to earn nothing; what earns something takes the time it needs."""
PAID_S = 20.0
MEMORY = 300 * 2**20
SUITE_S = 20.0
MARK = Path("/tmp/rollwright-attack")  # noqa: S108 - what an attack that gets out would leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Graders:
    """One pool of sandboxes for each way of scoring."""

    all: NamedVerifier
    fraction: NamedVerifier

    def of(self, attack: Attack) -> NamedVerifier:
        return self.fraction if attack.kind == "fraction" else self.all


@pytest.fixture(scope="module")
def graders() -> Iterator[Graders]:
    before = below(os.getpid())
    pair = Graders(
        all=named_verifier("unit_tests", suite_s=SUITE_S),
        fraction=named_verifier("unit_tests", scoring="fraction", suite_s=SUITE_S),
    )
    yield pair
    pair.all.close()
    pair.fraction.close()
    assert not living(before)


def living(before: frozenset[int]) -> frozenset[int]:
    """Processes that were started since, once they had time to end."""
    until = time.monotonic() + 60.0
    while (left := below(os.getpid()) - before) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def below(pid: int) -> frozenset[int]:
    """The processes below one."""
    children = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in told(path).split()]
    return frozenset(children).union(*(below(child) for child in children))


def told(path: Path) -> str:
    """A file of a process, empty where it has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def posed(attack: Attack) -> Attack:
    """The attack with the task that it is made against: the sum of a list of numbers."""
    is_stream = attack.kind == "stdin"
    info = {"tests": STREAMS, "language": "python"} if is_stream else {"tests": CALLS, "entry_point": "total"}
    text = f"```python\n{attack.row['code']}\n```"
    info |= {"wall_s": PAID_S if attack.earns or attack.most else UNPAID_S, "memory_bytes": MEMORY}
    return replace(attack, row=attack.row | {"question": "Sum them.", "answer": "-", "info": info, "text": text})


def complaints(graders: Graders, attacks: Sequence[Attack]) -> list[str]:
    async def all_of_them() -> list[Earned]:
        lanes = [verified(graders.of(attack).verifier, [posed(attack)]) for attack in attacks]
        return [earned for lane in lanes for earned in await lane]

    return [said for one in asyncio.run(all_of_them()) if (said := one.complaint(within_s=SUITE_S + 5.0))]


@pytest.mark.parametrize("kind", ["function", "fraction", "stdin"])
def test_a_program_is_paid_what_it_earned(graders: Graders, kind: str) -> None:
    assert complaints(graders, [a for a in ATTACKS if a.kind == kind and not a.is_slow]) == []
    assert not MARK.exists()


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.is_slow], ids=lambda attack: attack.id)
def test_a_program_that_uses_up_its_limits_ends_in_a_number(graders: Graders, attack: Attack) -> None:
    assert complaints(graders, [attack]) == []
