"""Each promise of the contract, broken on purpose: the check that watches over it fails, and says so."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.checking import CheckOrder, check_world
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.elsewhere import play_elsewhere
from rollwright.recipes.worlds.checking.session import CHECKS, run_checks
from rollwright.recipes.worlds.checking.stage import Stage
from rollwright.recipes.worlds.table import load_world
from rollwright.record import NamedValue, StepResult, Task, ToolResult, canonical_json
from rollwright.tasks import payload_of
from rollwright.verifiers import FunctionVerifier, Grade, Part
from tests.recipes.worlds import broken
from tests.recipes.worlds.broken import SCHEMA, Add, Adding, world

NUMBERS = itertools.count()
LEFT: list[Any] = []


def outcomes_of(make, *, until="closing", limit_s=20.0, scratch=None):
    """Every check up to one, but for the one in another process, here and now."""

    async def run():
        found = {}
        order = CheckOrder(name="here", arguments={}, num_tasks=2, limit_s=limit_s)
        bench = Bench(order=order, stage=Stage(limit_s=limit_s, tell=lambda *_: None), make=make, scratch=scratch)
        async for outcome in run_checks(bench, lambda name: None):
            found[outcome.name] = outcome
            if outcome.name == until:
                break
        return found

    return asyncio.run(run())


def failed(make, name, **more):
    """The sentence of a check that must fail."""
    outcome = outcomes_of(make, until=name, **more)[name]
    assert outcome.status == "failed", outcome
    return outcome.sentence


def test_a_world_that_keeps_the_contract_passes_every_check(tmp_path):
    found = outcomes_of(world, scratch=tmp_path)
    assert [f"{o.name}: {o.sentence}" for o in found.values() if o.status != "passed"] == []
    assert set(found) == set(CHECKS) - {"replay"}


def test_processes_that_were_there_before_are_not_held_against_a_world(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        try:
            closing = outcomes_of(world, scratch=tmp_path)["closing"]
            assert closing.status == "passed", closing.sentence
        finally:
            other.kill()


# -------------------------------------------------------------------------------------------- missing and wrong parts


@pytest.mark.row("S468")
@pytest.mark.parametrize(
    ("missing", "check", "says"),
    [
        ("transition", "tools", "no step (a transition)"),
        ("termination", "episodes", "it needs a termination"),
        ("reward", "builds", "the world has no reward"),
        ("version", "protocol", "revision (its version) is empty"),
    ],
)
def test_a_domain_without_transition_termination_reward_or_version_is_rejected(missing, check, says):
    class NoStep:
        tools, begin, call, artifacts, snapshot = (
            Add.tools,
            Add.begin,
            Add.call,
            Add.artifacts,
            Add.snapshot,
        )
        __init__, turn, state_hash = Add.__init__, Add.turn, Add.state_hash  # pyright: ignore[reportAssignmentType] - all of an episode but its step

    class Endless(Add):
        async def step(self, action):
            return self.turn(())

    worlds = {
        "transition": lambda: world(Adding(episode=NoStep)),  # pyright: ignore[reportArgumentType] - no episode, which is the point
        "termination": lambda: world(Adding(episode=Endless)),
        "reward": lambda: world(parts=()),
        "version": lambda: world(Adding(revision="")),
    }
    assert says in failed(worlds[missing], check)


def test_a_revision_that_changes_is_named_with_both_values():
    sentence = failed(lambda: world(Adding(revision=f"r{next(NUMBERS)}")), "identity")
    assert sentence.startswith("the environment's revision was 'r")
    assert "depend on code and settings alone" in sentence


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "not JSON"),
        (SCHEMA.replace("Add to the sum.", " "), "no description"),
        (SCHEMA.replace('"integer"', '"whole"'), "no valid JSON schema"),
        (SCHEMA.replace('"required":["by"]', '"required":["of"]'), "it requires ['of']"),
        (SCHEMA.replace('"name":"add"', '"name":"plus"'), "both names must be the same"),
    ],
)
def test_a_bad_schema_is_named_with_its_tool(schema, says):
    sentence = failed(lambda: world(Adding(tools={"add": schema})), "tools")
    assert says in sentence
    assert "'add'" in sentence


def test_tools_that_differ_from_task_to_task_are_refused():
    class Changing(Add):
        @property
        def tools(self):
            return {
                "add": SCHEMA,
                f"t{payload_of(self.task).answer}": SCHEMA.replace("add", f"t{payload_of(self.task).answer}"),
            }

    assert "the same tools in every episode" in failed(lambda: world(Adding(episode=Changing)), "tools")


@pytest.mark.parametrize("how", ["as it is", "under another id"])
def test_a_task_of_both_splits_is_named(how):
    def leaking(sizes, seed):
        (stratum,) = broken.tasks(sizes, seed)
        taken = stratum.train[0]
        name = taken.task_id if how == "as it is" else "adding/other"
        twin = Task(task_id=name, source=taken.source, revision="1", split="held_out", payload=taken.payload)
        return (replace(stratum, held_out=(*stratum.held_out, twin)),)

    sentence = failed(lambda: world(tasks=leaking), "tasks")
    assert "both splits" in sentence if how == "as it is" else "ask the same" in sentence
    assert "a held-out task never trains" in sentence


# --------------------------------------------------------------------------------------------------------- who is paid


def test_a_reference_that_fails_is_named_with_what_it_earned():
    def lazy(task, seed):
        return broken.reference(task, seed)[1:]

    sentence = failed(lambda: world(reference=lazy), "reference")
    assert "it earns 0, below the success threshold of 1" in sentence
    assert "the sum is" in sentence


def test_a_null_agent_that_is_paid_is_named():
    paying = FunctionVerifier(name="sum", revision="1", grade=lambda s: Grade(value=1.0, evidence="it took part"))
    found = outcomes_of(lambda: world(parts=(Part(verifier=paying),)), until="attacks")
    assert "the null agent: it is paid 1 without solving the task" in found["null agent"].sentence
    assert "the attack 'claim': it is paid 1" in found["attacks"].sentence


def test_verdicts_that_change_or_say_nothing_are_refused():
    def once(text, value=lambda: 0.0):
        verifier = FunctionVerifier(name="watch", revision="1", grade=lambda s: Grade(value=value(), evidence=text))
        return lambda: world(parts=(*world().parts, Part(verifier=verifier, weight=0.0)))

    assert "without evidence" in failed(once(""), "verdicts")
    assert "depends on the submission alone" in failed(once("x", lambda: float(next(NUMBERS))), "verdicts")


# -------------------------------------------------------------------------------------------------- repeating and state


def test_chance_that_is_not_from_the_seed_is_found():
    class Moody(Add):
        async def call(self, request):
            return replace(await super().call(request), text=f"{random.random()}")

    sentence = failed(lambda: world(Adding(episode=Moody)), "again")
    assert "the result of call 1 (add), in turn 1, was" in sentence


def test_state_that_is_kept_from_episode_to_episode_is_found():
    total = [0]

    class Keeping(Add):
        async def call(self, request):
            total[0] += 1
            return replace(await super().call(request), text=f"call {total[0]}")

    assert "state is kept from episode to episode" in failed(lambda: world(Adding(episode=Keeping)), "again")


def test_state_that_episodes_share_while_they_run_is_found():
    board = {"sum": 0}

    class Sharing(Add):
        async def begin(self):
            board["sum"] = 0
            return await super().begin()

        async def call(self, request):
            result = await super().call(request)
            board["sum"] += 1
            return replace(result, text=f"{board['sum']} calls")

    found = outcomes_of(lambda: world(Adding(episode=Sharing)), until="together")
    assert found["again"].status == "passed"
    assert "state is shared between episodes" in found["together"].sentence


def test_a_hash_that_never_changes_or_is_missing_is_found():
    class Constant(Add):
        def state_hash(self):
            return "always"

    class Hashless(Add):
        def state_hash(self):  # pyright: ignore[reportIncompatibleMethodOverride] - wrong on purpose
            return None

    assert "must change with the state" in failed(lambda: world(Adding(episode=Constant)), "state hash")
    assert "has no state_hash" in failed(lambda: world(Adding(episode=Hashless)), "state hash")


def test_a_hash_that_misses_part_of_the_state_is_found():
    class Parity(Add):
        def state_hash(self):
            return f"{self.sum > 0}"

    assert "in states of one state_hash" in failed(lambda: world(Adding(episode=Parity)), "state hash")


def test_a_snapshot_that_lies_is_found():
    class Forgetful(Add):
        async def snapshot(self):
            return canonical_json({"sum": min(self.sum, 1)}).encode()

    class Late(Add):
        def state_hash(self):
            return "x" if self.sum == 0 else "y"

        async def snapshot(self):
            return canonical_json({"sum": self.sum + 7}).encode()

    sentence = failed(lambda: world(Adding(episode=Forgetful)), "snapshot")
    assert "the snapshot does not hold the whole state" in sentence
    assert "the snapshot does not hold the whole state" in failed(lambda: world(Adding(episode=Late)), "snapshot")


def test_a_step_after_the_end_must_be_refused():
    class Tireless(Add):
        async def step(self, action):
            self.has_ended = False
            return await super().step(action)

    assert "an ended episode raises EnvironmentBrokenError" in failed(lambda: world(Adding(episode=Tireless)), "end")


# ------------------------------------------------------------------------------------------ mistakes, faults, and hangs


def test_a_bad_call_that_raises_is_named_with_what_it_raised():
    class Raw(Add):
        async def call(self, request):
            return ToolResult(call_id=request.call_id, status="ok", text=str({"add": 1}[request.tool]))

    sentence = failed(lambda: world(Adding(episode=Raw), parts=world().parts), "bad calls")
    assert "(KeyError)" in sentence
    assert "answered by a ToolResult" in sentence


def test_a_bad_call_that_is_taken_for_a_good_one_is_named():
    class Lenient(Add):
        async def call(self, request):
            result = await super().call(request)
            return replace(result, status="ok", text="fine")

    assert "was answered with status 'ok'" in failed(lambda: world(Adding(episode=Lenient)), "bad calls")


def test_statuses_and_control_characters_that_no_policy_should_see_are_refused():
    class Odd(Add):
        async def call(self, request):
            return replace(await super().call(request), status="great")

    class Bell(Add):
        async def call(self, request):
            return replace(await super().call(request), text="\a\x1b[2J")

    assert "the status is 'great'" in failed(lambda: world(Adding(episode=Odd)), "episodes")
    assert "control character" in failed(lambda: world(Adding(episode=Bell)), "episodes")


def test_a_reward_before_any_end_of_a_wrong_type_is_refused():
    class Generous(Add):
        async def step(self, action):
            step = await super().step(action)
            return StepResult(observations=step.observations, rewards=(NamedValue(name="r", value=float("nan")),))

    assert "not a finite number" in failed(lambda: world(Adding(episode=Generous)), "episodes")


def test_an_answer_that_does_not_come_is_named_and_what_follows_is_not_waited_for():
    class Hanging(Add):
        async def call(self, request):
            await asyncio.sleep(3600)
            raise AssertionError

    started = time.monotonic()
    found = outcomes_of(lambda: world(Adding(episode=Hanging)), until="together", limit_s=1.0)
    assert "call 1 (add)" in found["episodes"].sentence
    assert "did not come back within 1 s" in found["episodes"].sentence
    assert found["together"].status == "skipped"
    assert time.monotonic() - started < 60


# ------------------------------------------------------------------------------------------------------ what is left


def leaking(kind, folder):
    """An environment that leaves something of this kind behind, each time."""

    def leave():
        if kind == "tasks of the event loop":
            LEFT.append(asyncio.get_running_loop().create_task(asyncio.sleep(3600)))
        elif kind == "threads":
            LEFT.append(done := threading.Event())
            threading.Thread(target=done.wait, daemon=True).start()
        elif kind == "processes":
            LEFT.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"]))
        elif kind == "temporary files":
            tempfile.mkstemp(dir=folder)
        else:
            LEFT.append(Path(os.devnull).open("rb"))

    return lambda: world(Adding(leave=leave))


@pytest.mark.parametrize("kind", ["tasks of the event loop", "threads", "processes", "temporary files", "open files"])
def test_what_episodes_leave_behind_is_counted(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("rollwright.recipes.worlds.checking.leaving._SETTLE_S", 0.1)
    try:
        sentence = failed(leaking(kind, tmp_path), "cancelling", scratch=tmp_path)
    finally:
        while LEFT:
            left = LEFT.pop()
            if isinstance(left, subprocess.Popen):
                left.kill()
                left.wait()
            elif isinstance(left, threading.Event):
                left.set()
            elif not isinstance(left, asyncio.Task):
                left.close()
    assert f" {kind}" in sentence
    assert "leaving the context ends all that the episode started" in sentence


def test_a_cancelling_that_is_swallowed_is_named():
    class Deaf(Add):
        async def call(self, request):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass
            return await super().call(request)

    assert "was ignored" in failed(lambda: world(Adding(episode=Deaf)), "cancelling")


def test_an_error_that_is_hidden_by_leaving_is_named():
    class Hiding(Adding):
        def open(self, task, *, seed, snapshot=None):  # pyright: ignore[reportIncompatibleMethodOverride] - a context of its own
            context = super().open(task, seed=seed, snapshot=snapshot)

            class Silent:
                async def __aenter__(self):
                    return await context.__aenter__()

                async def __aexit__(self, kind, error, trace):
                    await context.__aexit__(None, None, None)
                    return True

            return Silent()

    assert "hid the error" in failed(lambda: world(Hiding()), "leaving")


# -------------------------------------------------------------------------------------------------- in other processes

MODULE = """
import asyncio, os, time
from tests.recipes.worlds.broken import Add, Adding, world
from dataclasses import replace

class Blocking(Add):
    async def begin(self):
        time.sleep(3600)

class Quitting(Add):
    async def call(self, request):
        os._exit(0)

class Clock(Add):
    async def call(self, request):
        return replace(await super().call(request), text=time.strftime("%H:%M"))

class Hashing(Add):
    async def call(self, request):
        return replace(await super().call(request), text=" ".join({"a", "b", "c", "d", "e", "f"}))

def blocking(): return world(Adding(episode=Blocking))
def quitting(): return world(Adding(episode=Quitting))
def clock(): return world(Adding(episode=Clock))
def hashing(): return world(Adding(episode=Hashing))
def raising(): raise KeyError("no luck")
made = world()
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "odd_worlds.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "odd_worlds"


def checked(name, limit_s=1.0):
    order = CheckOrder(name=name, arguments={}, num_tasks=1, limit_s=limit_s)
    return {outcome.name: outcome for outcome in check_world(order)}


def test_an_environment_that_ends_the_process_ends_only_its_own(module):
    found = checked(f"{module}:quitting")
    assert "ended the whole process (exit code 0)" in found["episodes"].sentence
    assert "call 1 (add)" in found["episodes"].sentence
    assert set(found) == set(CHECKS)


def test_an_environment_that_blocks_the_loop_is_ended(module, monkeypatch):
    monkeypatch.setattr("rollwright.recipes.worlds.checking.supervising._GRACE_S", 0.5)
    found = checked(f"{module}:blocking", limit_s=0.5)
    assert "begin of task" in found["episodes"].sentence
    assert "blocked everything else" in found["episodes"].sentence


@pytest.mark.parametrize("name", ["clock", "hashing"])
def test_a_clock_and_the_order_of_hashing_show_in_another_process(module, name, tmp_path):
    async def run():
        order = CheckOrder(name=f"{module}:{name}", arguments={}, num_tasks=1, limit_s=2.0)
        from odd_worlds import clock, hashing  # pyright: ignore[reportMissingImports] - the fixture writes it

        bench = Bench(
            order=order,
            stage=Stage(limit_s=2.0, tell=lambda *_: None),
            make={"clock": clock, "hashing": hashing}[name],
            elsewhere=lambda given: play_elsewhere(given, tmp_path / "scratch"),
        )
        async for outcome in run_checks(bench, lambda name: None):
            if outcome.name == "replay":
                return outcome
        return None

    (tmp_path / "scratch").mkdir()
    outcome = asyncio.run(run())
    assert outcome is not None
    assert outcome.status == "failed"
    assert "in another process" in outcome.sentence
    assert "no clock, no order of hashing" in outcome.sentence


def test_a_world_that_is_made_already_is_taken_and_a_name_of_nothing_is_refused(module):
    assert all(outcome.status == "passed" for outcome in checked(f"{module}:made").values())
    with pytest.raises(RecipeError, match="cannot be loaded"):
        load_world(f"{module}:absent", {})


def test_a_callable_that_raises_fails_to_build(module):
    sentence = failed(lambda: load_world(f"{module}:raising", {}), "builds")
    assert "KeyError: 'no luck'" in sentence


def test_the_reference_may_speak_of_its_own_seed_only():
    def failing(task, seed):
        raise RuntimeError("no plan")

    assert "the reference raised" in failed(lambda: world(reference=failing), "episodes")
    assert "where a DemonstratedTurn is due" in failed(lambda: world(reference=lambda t, s: ("done",)), "episodes")
    assert DemonstratedTurn(text="done").calls == ()
