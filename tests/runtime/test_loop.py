"""The loop with fakes: the order of things, evaluations at boundaries, what is kept, and how it stops."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest

from rollwright.evidence import StoredRun, query
from rollwright.record import TerminalReason
from rollwright.rollout import FixedClock
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.errors import NoProgressError, RunStoppedError, RuntimeRunError
from rollwright.runtime.ledger import Ledger, LedgerBalance
from rollwright.runtime.loop import Loop
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.saving import CheckpointRule
from rollwright.runtime.watchdog import Watchdog, WatchRules
from rollwright.runtime.weights import WeightChannel, WeightShelf
from tests.cases import case
from tests.runtime.fakes import ended, episodes, noon, score
from tests.runtime.loops import end, make_world, rl, warm_start


@pytest.fixture
def world(tmp_path):
    made = make_world(tmp_path / "run")
    yield made
    end(made)


def run(world, stages, *, start=None, **rules):
    return asyncio.run(asyncio.wait_for(Loop(world.parts(stages, **rules), start).run(), 60))


def steps_of(world, what):
    return [step for name, step in world.log if name == what]


def test_a_step_publishes_and_settles_before_the_next_may_start_and_is_written_behind_it(world):
    run(world, [rl(world, steps=2)])
    first = world.log.index(("collect", 1))
    assert world.log[:first] == [("begin rl", 0), ("publish", 0), ("evaluate", 0), ("save", 0)]
    # The next step may start while this one is written; what is said of a step is said when it is written.
    step = ("collect", "train", "publish", "settle")
    written = ("save", "report")
    order = [entry for entry in world.log[first:] if entry[0] not in written]
    assert order == [
        *((what, 1) for what in (*step, "advance")),
        *((what, 2) for what in (*step, "evaluate")),
    ]
    assert [entry for entry in world.log[first:] if entry[0] in written] == [
        (what, n) for n in (1, 2) for what in written
    ]
    assert world.log.index(("advance", 1)) < world.log.index(("save", 1))
    # `save` notes the step of the newest commit: each step was committed before its checkpoint.
    assert [c.step for c in world.folder.commits] == [0, 1, 2]


def test_the_evaluation_before_the_first_step_is_watched_too(world):
    clock = FixedClock()

    async def endless(step):
        clock.advance(61)
        await asyncio.Event().wait()

    dog = Watchdog(WatchRules(run_s=60, look_s=0.01), clock, world.listener.warned)
    parts = replace(world.parts([rl(world, steps=1)]), watchdog=dog, evaluate=endless)
    with pytest.raises(NoProgressError, match="no step was finished for 61 s"):
        asyncio.run(asyncio.wait_for(Loop(parts).run(), 20))


def test_a_run_that_is_cancelled_while_its_last_step_is_written_leaves_no_write_behind(world):
    begun, may_end = asyncio.Event(), threading.Event()
    commit = world.folder.commit

    async def go():
        loop = asyncio.get_running_loop()

        def slowly(rows, *, at):
            if rows.step == 1:
                loop.call_soon_threadsafe(begun.set)
                assert may_end.wait(20)
            return commit(rows, at=at)

        world.folder.commit = slowly
        running = asyncio.ensure_future(Loop(world.parts([rl(world, steps=1)])).run())
        await begun.wait()
        for _ in range(2):
            running.cancel()
            await asyncio.wait({running}, timeout=0.05)
            assert not running.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("writing")] == []

    asyncio.run(asyncio.wait_for(go(), 30))
    assert [c.step for c in world.folder.commits] == [0, 1]


def test_every_call_of_the_learner_runs_in_its_own_thread(world):
    run(world, [rl(world, steps=1)])
    assert {name.split("_")[0] for name in world.learner.threads} == {"learner"}


def test_a_supervised_stage_publishes_only_where_it_is_evaluated(world):
    result = run(world, [warm_start(world, steps=2), rl(world, steps=1)])
    assert steps_of(world, "publish") == [0, 2, 3] and steps_of(world, "evaluate") == [0, 2, 3]
    assert [("begin supervised", 0), ("begin rl", 0)] == [entry for entry in world.log if entry[0].startswith("begin")]
    assert [(s.stage, s.first_step) for s in world.listener.stages] == [("supervised", 1), ("rl", 3)]
    assert result.before is not None and result.before.step == 2
    assert result.after is not None and result.after.step == 3


@pytest.mark.case("F123")
def test_evaluation_runs_once_a_boundary_and_each_episode_is_scored_once(tmp_path):
    worked = case("F123")
    world = make_world(tmp_path / "run", accumulation=worked.input["grad_accum_steps"])
    calls = Counter()

    async def counted(trajectories):
        calls.update(t.trajectory_id for t in trajectories)
        return await score(trajectories)

    every, updates = worked.input["eval_every_updates"], worked.input["updates"]
    slots = worked.input["episodes"] // updates
    run(world, [rl(world, steps=updates, evaluate_every=every, score_with=counted, slots=slots)])
    end(world)
    assert (world.learner.updates, world.learner.micro_batches) == (4, 16)
    boundaries = [step for step in steps_of(world, "evaluate") if step]
    assert boundaries == [2, 4] and len(boundaries) == worked.expect["eval_runs"]
    assert sum(calls.values()) == worked.expect["reward_calls"] and set(calls.values()) == {1}


def test_the_last_step_is_evaluated_once_also_where_it_is_no_multiple(world):
    run(world, [rl(world, steps=5, evaluate_every=2)])
    assert steps_of(world, "evaluate") == [0, 2, 4, 5]


def test_what_the_steps_held_is_committed_once(world):
    result = run(world, [rl(world, steps=3, slots=4)])
    stored = StoredRun(world.folder.path)
    trained = [(r.group_id, r.slot) for r in stored.ledger if r.state == "trained"]
    assert len(trained) == len(set(trained)) == 12
    assert (result.steps, result.num_episodes, result.num_action_tokens) == (3, 12, 12)
    assert [r.reward for r in world.listener.steps] == [0.5, 0.5, 0.5]
    assert [dict(r.ledger)["trained"] for r in world.listener.steps] == [4, 8, 12]


def test_only_the_newest_the_first_of_each_stage_and_the_multiples_are_kept(world):
    stages = [warm_start(world, steps=3), rl(world, steps=6)]
    run(world, stages, checkpoints=CheckpointRule(every=1, keep=2, keep_every=4))
    assert [c.name for c in world.folder.checkpoints()] == [
        "step-000000",
        "step-000003",
        "step-000004",
        "step-000008",
        "step-000009",
    ]


def test_checkpoints_are_written_at_multiples_at_evaluations_and_at_the_end(world):
    run(
        world,
        [rl(world, steps=7, evaluate_every=4)],
        checkpoints=CheckpointRule(every=3, keep=50, keep_every=0),
    )
    assert steps_of(world, "save") == [0, 3, 4, 6, 7]


def test_a_checkpoint_holds_the_progress_of_its_step_with_its_evaluation(world):
    run(world, [rl(world, steps=2, evaluate_every=2)])
    chosen = world.folder.newest_checkpoint().chosen
    assert chosen is not None
    progress = read_progress(chosen)
    assert (progress.step, progress.update, progress.stage, progress.stage_step) == (2, 2, 0, 2)
    assert progress.collector.trained_slots == 4 and progress.next_group == 2
    assert progress.balance == LedgerBalance(dispatched=4, by_state={"trained": 4})
    assert [e.step for e in progress.evaluations] == [0, 2]
    assert (chosen.path / "tokenizer.json").is_file() and (chosen.path / "updates.txt").read_text() == "2"


def resumed(world):
    """The same folder, with parts as a new process would make them."""
    chosen = world.folder.newest_checkpoint().chosen
    progress = read_progress(chosen)
    world.log.clear()
    world.learner.on_train = lambda trained: None
    counter, ledger = GroupCounter(progress.next_group), Ledger(noon, progress.balance)
    channel = WeightChannel(world.learner, world.engine, WeightShelf(), world.thread)
    shutdown = type(world.shutdown)(world.listener.warned)
    listener = replace(world.listener, steps=[])
    fresh = replace(world, counter=counter, ledger=ledger, channel=channel, shutdown=shutdown, listener=listener)
    return fresh, progress


def stop_after(world, step):
    def ask(trained):
        if trained == step:
            world.shutdown.request(lambda: None)

    world.learner.on_train = ask


def test_a_request_to_stop_ends_after_a_saved_step_and_a_resume_goes_on_with_the_next(world):
    stop_after(world, 2)
    with pytest.raises(RunStoppedError, match="stopped after step 2, which is saved"):
        run(world, [rl(world, steps=4)])
    assert steps_of(world, "save") == [0, 1, 2]
    again, progress = resumed(world)
    result = run(again, [rl(again, steps=4)], start=progress)
    assert steps_of(again, "collect") == [3, 4] and steps_of(again, "evaluate") == [4]
    assert not [entry for entry in again.log if entry[0].startswith("begin")]
    assert result.steps == 4 and result.before is not None and result.before.step == 0
    stored = StoredRun(world.folder.path)
    trained = Counter((r.group_id, r.slot) for r in stored.ledger if r.state == "trained")
    assert set(trained.values()) == {1} and len(trained) == 8
    # Eight episodes of four tasks, none of them drawn twice.
    assert len({r.task_id for r in stored.ledger if r.state == "trained"}) == 4


def test_a_request_in_the_last_step_of_a_run_finds_it_finished(world):
    stop_after(world, 2)
    assert run(world, [rl(world, steps=2)]).steps == 2


def test_a_request_in_the_last_step_of_a_stage_stops_before_the_next(world):
    stop_after(world, 2)
    stages = [warm_start(world, steps=2), rl(world, steps=2)]
    with pytest.raises(RunStoppedError, match="after step 2"):
        run(world, stages)
    again, progress = resumed(world)
    run(again, [warm_start(again, steps=2), rl(again, steps=2)], start=progress)
    assert steps_of(again, "collect") == [3, 4] and ("begin rl", 0) in again.log


def test_refused_weights_stop_the_run_in_one_sentence_and_the_saved_steps_stay(tmp_path):
    world = make_world(tmp_path / "run", refused_versions=frozenset({2}))
    with pytest.raises(RuntimeRunError, match="version 2 .*version 1 still serves"):
        run(world, [rl(world, steps=3)])
    assert [c.step for c in world.folder.commits] == [0, 1]
    assert world.channel.published == 1
    end(world)


def test_a_run_without_progress_stops_with_the_sentence_itself(world):
    def fail(attempt):
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="the engine is gone")

    with pytest.raises(NoProgressError, match="the engine is gone"):
        run(world, [rl(world, steps=2, run_episode=episodes(fail))])
    # The failed attempts and their causes stay to be read; a resumed run goes on from before them.
    assert [c.step for c in world.folder.commits] == [0, 1]
    rows = query(world.folder.path, "SELECT count(*) > 0, min(failure_cause) FROM trajectories").rows
    assert rows == ((True, "the engine is gone"),)


def test_steps_without_an_update_stop_the_run_with_what_became_of_its_episodes(world):
    world.learner.is_idle = True
    with pytest.raises(NoProgressError, match=r"no update could be made in 5 steps.*'scored'"):
        run(world, [rl(world, steps=8)])
    assert [c.step for c in world.folder.commits][:6] == [0, 1, 2, 3, 4, 5]


def test_a_broken_demonstration_stops_with_the_sentence_itself(world):
    def fail(attempt):
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no tool")

    with pytest.raises(RuntimeRunError, match="ended with infrastructure_failure: no tool"):
        run(world, [warm_start(world, steps=1, run_episode=episodes(fail))])
