"""Short trainings under injected faults: each passes, and a part that is broken on purpose is noticed.

`make prove-drills` runs every fault with five seeds, synchronous and with lag.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from rollwright.recipes.drills.drill import DrillReport, DrillsOrder, drill, drill_fault
from rollwright.recipes.drills.faults import FAULTS, chosen_faults
from rollwright.recipes.drills.rig import Alteration, unaltered
from rollwright.record import Group, LedgerRow
from rollwright.runtime.ledger import Ledger, LedgerBalance
from rollwright.runtime.loop import LoopParts
from rollwright.runtime.parts import Collected, Collector
from tests.end_to_end.children import start_command
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import ROOT

SANDBOXED = "interpreter-tiny"
RUNNING = 'environment={kind="world", name="tests.end_to_end.parts:running"}'
"""A sandbox is taken at the first call: a policy that is taught nothing makes none."""
RL_ALONE = 'stages=[{kind="rl", name="rl"}]'
WITHOUT_SANDBOXES = """
import json, sys
from pathlib import Path
from rollwright.recipes.drills.drill import DrillsOrder, drill_fault
from rollwright.recipes.drills.faults import chosen_faults

(fault,) = chosen_faults("sandbox_dies")
order = DrillsOrder(recipe="arithmetic-tool", settings=(), faults=fault.name, seed=0, folder=Path(sys.argv[1]))
report = drill_fault(order, fault)
print(json.dumps([report.hits, list(report.wrong), report.skipped]))
"""
"""A drill of a recipe that runs nothing in a sandbox."""
SEEDS = range(5)
LAGS = (0, 2)
COMMAND = "make prove-drills"


def drilled(path: Path, name: str, *settings: str, seed: int = 0, alter: Alteration = unaltered) -> DrillReport:
    """One fault on the default recipe, or on one that has what the fault needs."""
    (fault,) = chosen_faults(name)
    recipe = SANDBOXED if fault.needs == "sandboxes" else "arithmetic-tool"
    parts = {"nothing": [], "workers": symbolic(path), "sandboxes": [RUNNING, RL_ALONE]}[fault.needs]
    order = DrillsOrder(
        recipe=recipe,
        settings=(*parts, "runtime.threads=1", *settings),
        faults=name,
        seed=seed,
        folder=path,
        alter=alter,
    )
    return drill_fault(order, fault)


def symbolic(path: Path) -> list[str]:
    """Settings with tasks whose answers are no numbers: those alone are compared in processes of the verifier's own."""
    tasks = path / "tasks.jsonl"
    asked = [(f"Expand (x + {n})(x - 1).", f"x^2 + {n - 1}x - {n}") for n in range(2, 82)]
    lines = [json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in asked]
    tasks.write_text("\n".join(lines), encoding="utf-8")
    return ['verifier.parts=[{kind="math"}]', f'tasks={{kind="jsonl", train="{tasks}"}}', RL_ALONE]


def test_a_run_whose_engine_dies_goes_on_and_its_account_is_whole(tmp_path: Path) -> None:
    report = drilled(tmp_path, "engine_dies")
    assert report.wrong == ()
    assert "went on; engine was made again" in report.outcome
    assert report.account is not None and report.account.by_state["trained"] == report.account.dispatched == 32


class LosingLedger:
    """Forgets what it is told of one slot, and still says that it balances."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def balance(self) -> LedgerBalance:
        return self._ledger.balance()

    def take_rows(self) -> tuple[LedgerRow, ...]:
        return tuple(row for row in self._ledger.take_rows() if row.slot != 1 or row.step > 2)

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)


def loses_a_slot(parts: LoopParts) -> LoopParts:
    return replace(parts, ledger=cast("Ledger", LosingLedger(parts.ledger)))


class Unguarded:
    """Hands a group over twice, and tells the ledger of the first time alone."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._before: tuple[Group, ...] = ()

    async def collect(self, step: int) -> Collected:
        collected = await self._collector.collect(step)
        groups = (*collected.groups, *self._before[:1])
        self._before = collected.groups
        return replace(collected, groups=groups) if self._collector.needs_policy else collected

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        self._collector.settle(step, self._before)

    def __getattr__(self, name: str) -> object:
        return getattr(self._collector, name)


def trains_twice(parts: LoopParts) -> LoopParts:
    def unguarded(stage):
        return replace(stage, collector=lambda version: cast("Collector", Unguarded(stage.collector(version))))

    return replace(parts, stages=tuple(unguarded(stage) for stage in parts.stages))


def test_a_ledger_that_loses_a_slot_is_noticed(tmp_path: Path) -> None:
    report = drilled(tmp_path, "tools_slow", alter=loses_a_slot)
    assert report.has_failed
    assert any("has no slot 1: it was lost" in sentence for sentence in report.wrong), report.wrong


def test_a_collector_that_delivers_twice_without_a_guard_is_noticed(tmp_path: Path) -> None:
    report = drilled(tmp_path, "tools_slow", alter=trains_twice)
    assert report.has_failed
    assert any("receipts are of 2 steps" in sentence for sentence in report.wrong), report.wrong
    assert any("an episode was trained in two steps" in sentence for sentence in report.wrong), report.wrong


def test_a_fault_that_never_strikes_proves_nothing(tmp_path: Path) -> None:
    (fault,) = chosen_faults("turn_lost")
    short = ("run.steps=1", "evaluation.every=1", "learner.warmup_updates=0")
    order = DrillsOrder(recipe="arithmetic-tool", settings=short, faults="turn_lost", seed=0, folder=tmp_path)
    report = drill_fault(order, replace(fault, first=1_000_000))
    assert report.wrong == ("the fault never struck, so nothing was proved",)


def test_processes_that_never_ran_were_not_killed_and_the_fault_is_skipped(tmp_path: Path) -> None:
    # In a process of its own: this one may have sandboxes of other tests, which would be killed.
    command = [sys.executable, "-c", WITHOUT_SANDBOXES, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    hits, wrong, skipped = json.loads(ended.stdout.splitlines()[-1])
    assert (hits, wrong) == (0, [])
    assert re.match(r"nothing that it kills was running at any of the \d+ moments", skipped)


@pytest.mark.slow
def test_the_command_prints_an_account_for_each_fault_and_ends_with_its_exit_code(tmp_path: Path) -> None:
    words = ["drill", "arithmetic-tool", "--faults", "disk_full,sandbox_dies", "--json", "--run-dir", tmp_path / "runs"]
    ended = start_command(words, tmp_path).ended()
    assert ended.code == 0, ended.err
    passed, skipped, counts = ended.lines
    assert (passed["fault"], passed["passed"], passed["dispatched"]) == ("disk_full", True, 32)
    assert sum(passed["states"].values()) == 32
    assert skipped["skipped"] == "the recipe's environment runs nothing in a sandbox"
    assert counts == {"passed": 1, "failed": 0, "skipped": 1, "runs": str(tmp_path / "runs")}


@pytest.mark.slow
@pytest.mark.training
@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_passes_with_five_seeds(fault, lag: int, tmp_path: Path, proofs: Proofs) -> None:
    command = f"{COMMAND}: {fault.name}, lag {lag}"
    figures = proofs.recorded(command, list(SEEDS))
    if figures is None:
        reports = [drilled(tmp_path, fault.name, f"runtime.max_lag={lag}", seed=seed) for seed in SEEDS]
        figures = {
            "hits": [report.hits for report in reports],
            "wrong": [list(report.wrong) for report in reports],
            "accounts": [str(report.account) for report in reports],
            "seconds": [round(report.seconds, 1) for report in reports],
        }
        proofs.record(command, list(SEEDS), figures)
    assert figures["wrong"] == [[]] * len(SEEDS)
    assert all(figures["hits"])


def test_a_recipe_that_cannot_be_struck_is_skipped_with_the_reason(tmp_path: Path) -> None:
    order = DrillsOrder(recipe="arithmetic-tool", settings=(), faults="verifier_worker_dies", seed=0, folder=tmp_path)
    (report,) = drill(order)
    assert report.skipped == "the recipe's verifiers (exact, format) have no processes of their own"
    assert not report.has_failed
