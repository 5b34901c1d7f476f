"""Worlds that were broken without a look at the check: it finds each fault, and its sentence names the right thing.

Each world of `broken_worlds/` is one small sound world with one fault. Most are checked here and now, up to the check
that must fail; those that hang, block, leave something behind or differ in another process get processes of their own.
"""

import asyncio
import importlib
from pathlib import Path

import pytest

from rollwright.recipes.worlds.checking import CheckOrder, check_world
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.session import run_checks
from rollwright.recipes.worlds.checking.stage import Stage

FOLDER = "tests.recipes.worlds.broken_worlds"
SOUND = ("lamps", "noisy_but_sound")
HANGING = {"step_hangs"}
"""Named once their limit is over; the others have more than they need."""
HERE = {
    "address_in_a_message": ("again", ("the first observation", "chance or a clock")),
    "answers_another_call": ("episodes", ("'e/c0' was answered as call 'c99'",)),
    "artifacts_count_reads": ("again", ("the artifact lamps.json", "read a second time")),
    "bad_task_raises": ("bad tasks", ("TaskError", "EnvironmentBrokenError")),
    "blames_itself": ("bad calls", ("no such tool", "EnvironmentBrokenError", "answered by a ToolResult")),
    "calls_without_limit": ("limits", ("12 calls are declared", "call 13")),
    "cancelling_is_swallowed": ("cancelling", ("cancelling call", "was ignored")),
    "chance_of_its_own": ("again", ("the first observation", "chance")),
    "class_attribute": ("again", ("looks", "state is kept from episode to episode")),
    "clock_in_a_result": ("again", ("the result of call 1 (press)", "a clock")),
    "clock_in_artifacts": ("again", ("the artifact lamps.json", "a clock")),
    "counts_visitors": ("again", ("Visitor", "state is kept from episode to episode")),
    "ends_and_asks": ("episodes", ("the end environment_success", "a turn that nobody takes")),
    "fails_open": ("verdicts", ("the null agent", "0, and 1 with a task that cannot be read", "never a number")),
    "fails_to_zero": ("verdicts", ("1, and 0 with a task that cannot be read", "never a number")),
    "floods": ("episodes", ("10,000,022 characters",)),
    "floods_undeclared": ("episodes", ("10,000,022 characters",)),
    "goes_on_after_its_end": ("end", ("a step after the end", "was answered")),
    "hash_constant": ("state hash", ("in all", "must change with the state")),
    "hash_missing": ("state hash", ("observation 2 has no state_hash",)),
    "hash_of_half": ("state hash", ("have one state_hash", "states that differ need hashes that differ")),
    "hash_of_the_object": ("again", ("the state_hash of the first observation",)),
    "hash_of_turns": ("state hash", ("have one state_hash", "states that differ need hashes that differ")),
    "held_out_leaks": ("tasks", ("held-out task", "and training task", "ask the same")),
    "invalid_schema": ("tools", ("tool 'press'", "no valid JSON schema", "whole number")),
    "last_opened": ("together", ("played beside 3 other episodes", "shared between episodes")),
    "leaves_a_task": ("cancelling", ("tasks of the event loop were left behind",)),
    "leaves_files": ("cancelling", ("temporary files were left behind",)),
    "leaving_raises": ("tools", ("leaving task", "the lamps are stuck")),
    "leaving_swallows": ("leaving", ("by an error hid the error",)),
    "long_results": ("limits", ("result_characters is declared as 120", "had 1,0")),
    "misnamed_tool": ("tools", ("tool 'press'", "'push'", "the same")),
    "mutable_default": ("together", ("no calls left", "shared between episodes")),
    "name_changes": ("identity", ("the environment's name was",)),
    "no_held_out": ("tasks", ("0 held-out tasks",)),
    "one_file_for_all": ("together", ("beside 3 other episodes",)),
    "pays_a_claim": ("attacks", ("'says so'", "is paid 1 without solving")),
    "pays_silence": ("null agent", ("is paid 1 without solving",)),
    "pays_the_opening": ("episodes", ("'welcome' before any turn",)),
    "raises_on_an_unknown_tool": ("bad calls", ("no such tool", "KeyError", "answered by a ToolResult")),
    "raises_on_bad_json": ("bad calls", ("half a JSON object", "JSONDecodeError")),
    "reference_by_chance": ("again", ("the reference", "chance")),
    "reference_fails_held_out": ("reference", ("earns 0", "below the success threshold")),
    "reference_forgets_the_seed": ("reference", ("earns 0", "below the success threshold")),
    "remembers_tasks": ("episodes", ("the null agent", "after the episode had ended")),
    "revision_of_each_build": ("identity", ("the environment's revision was", "in a second world")),
    "snapshot_forgets_calls": ("limits", ("from a snapshot after one call", "does not hold how many")),
    "snapshot_not_implemented": ("snapshot", ("NotImplementedError",)),
    "snapshot_of_the_start": ("snapshot", ("from its snapshot", "does not hold the whole state")),
    "status_of_its_own": ("episodes", ("the status is 'fine'", "tool_error")),
    "step_exits": ("episodes", ("SystemExit",)),
    "step_hangs": ("episodes", ("step of turn 1", "did not come back within")),
    "tasks_by_chance": ("tasks", ("the same sizes and seed gave other tasks",)),
    "tools_by_task": ("tools", ("hint", "the same tools in every episode")),
    "tools_by_turn": ("episodes", ("after turn 1", "look", "never change")),
    "unknown_actor": ("episodes", ("'ghost'", "actors are agent")),
    "verdict_by_chance": ("verdicts", ("depends on the submission alone",)),
    "verdict_is_no_number": ("null agent", ("grader_error",)),
    "verdict_runs_out": ("verdicts", ("depends on the submission alone",)),
    "verdict_without_evidence": ("verdicts", ("without evidence",)),
    "verifier_compares": ("reference", ("earns 0.5",)),
    "verifier_drops": ("reference", ("VerdictError", "were asked for")),
    "verifier_is_late": ("verdicts", ("its deadline is 0.1 s",)),
    "verifier_mixes_up": ("verdicts", ("verdicts at once", "were asked for")),
    "verifier_raises": ("null agent", ("ValueError", "not enough values")),
}
APART = {
    "agent_loops": ("episodes", ("planning the turns of the reference",)),
    "call_blocks_a_little": ("together", ("the event loop stood still",)),
    "ignores_a_signal": ("leaving", ("what the whole process does on SIGINT",)),
    "sets_a_variable": ("leaving", ("LAMPS_TASK", "environment variables of the whole process")),
    "call_ends_the_process": ("episodes", ("call 1 (press)", "ended the whole process (exit code 0)")),
    "close_ends_the_process": ("identity", ("closing", "ended the whole process (exit code 0)")),
    "close_keeps_its_server": ("closing", ("processes live on",)),
    "import_exits": ("builds", ("raises SystemExit", "import_exits:load")),
    "leaves_a_child": ("cancelling", ("processes were left behind",)),
    "leaves_a_thread": ("cancelling", ("threads were left behind",)),
    "leaves_an_orphan": ("cancelling", ("processes were left behind",)),
    "leaves_descriptors": ("cancelling", ("open files were left behind",)),
    "leaving_hangs": ("tools", ("leaving task", "did not come back within")),
    "local_time": ("replay", ("It is +0000", "in another process")),
    "moves_the_process": ("leaving", ("the working folder", "to '/'")),
    "open_hangs": ("tools", ("opening task", "did not come back within")),
    "order_of_a_set": ("bad calls", ("no such tool", "in another process")),
    "revision_of_each_process": ("replay", ("revision is", "in another process")),
    "returns_nothing": ("builds", ("returns_nothing:load", "made a No")),
    "salted_hash": ("replay", ("the first observation", "no order of hashing")),
    "seeds_the_process": ("leaving", ("`random`", "seeds")),
    "snapshot_in_memory": ("snapshot", ("in another process",)),
    "step_blocks": ("episodes", ("step of turn 1", "blocked everything else", "the event loop")),
    "tasks_by_process": ("replay", ("the first tasks are", "in another process")),
    "tidies_only_a_good_end": ("cancelling", ("temporary files were left behind",)),
}
"""Those that need processes; one of them runs by default."""


def sentence_here(name, check, scratch):
    """What the check says, which runs in this process together with those before it."""

    limit_s = 1.0 if name in HANGING else 20.0

    async def run():
        order = CheckOrder(name="here", arguments={}, num_tasks=2, limit_s=limit_s)
        make = importlib.import_module(f"{FOLDER}.{name}").load
        bench = Bench(order=order, stage=Stage(limit_s=limit_s, tell=lambda *_: None), make=make, scratch=scratch)
        async for outcome in run_checks(bench, lambda name: None):
            if outcome.name == check:
                return outcome
        raise AssertionError(f"{name}: no check {check}")

    return asyncio.run(run())


def outcomes_apart(name):
    order = CheckOrder(name=f"{FOLDER}.{name}:load", arguments={}, num_tasks=2, limit_s=2.0)
    return list(check_world(order))


def test_every_broken_world_is_in_one_table():
    there = {path.stem for path in (Path(__file__).parent / "broken_worlds").glob("*.py")}
    assert there == {*SOUND, *HERE, *APART}
    assert not HERE.keys() & APART.keys()


@pytest.mark.parametrize("name", HERE)
def test_the_check_that_watches_over_it_fails_and_names_the_fault(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("rollwright.recipes.worlds.checking.leaving._SETTLE_S", 0.1)
    check, phrases = HERE[name]
    outcome = sentence_here(name, check, tmp_path)
    assert outcome.status == "failed", outcome
    assert [phrase for phrase in phrases if phrase not in outcome.sentence] == [], outcome.sentence


def test_the_sound_world_passes_every_check():
    assert [one for one in outcomes_apart("lamps") if one.status != "passed"] == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "call_ends_the_process" else pytest.mark.slow) for name in APART]
)
def test_a_fault_that_ends_hangs_or_leaves_something_is_named(name):
    check, phrases = APART[name]
    failed = {one.name: one.sentence for one in outcomes_apart(name) if one.status == "failed"}
    assert check in failed, failed
    assert [phrase for phrase in phrases if phrase not in failed[check]] == [], failed


@pytest.mark.slow
def test_a_world_that_prints_is_no_worse_for_it():
    assert [one for one in outcomes_apart("noisy_but_sound") if one.status != "passed"] == []
