"""Over the largest lag: expired alone or masked, counted when the batch is taken, never silently kept or dropped."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from rollwright.record import Sampling, Segment
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.errors import NoProgressError, first_of
from rollwright.runtime.flights import newest_version, oldest_version
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import Attempt, GroupCounter
from tests.cases import case
from tests.runtime.dispatching import Episodes, Run, sources
from tests.runtime.fakes import ended, noon, numbered_tasks, score, task


def versioned(attempt, versions):
    """An episode whose segments were sampled by these versions, one token each."""
    made = ended(attempt, version=versions[0])
    said = [
        Segment(
            segment=1 + n,
            parent=n,
            context=0,
            start=2 + n,
            origin="policy",
            actor="main",
            turn=n,
            token_ids=np.array([3], np.int32),
            behavior_logprobs=np.array([-0.5], np.float32),
            policy="policy",
            policy_version=version,
            cache_version=version,
            sampling=Sampling(),
        )
        for n, version in enumerate(versions)
    ]
    return replace(made, segments=(made.segments[0], *said))


def dispatcher_of(run, ledger, *, slots=4, group_size=2, max_lag=2, **rules):
    return Dispatcher(
        DispatchRules(
            stage="rl",
            admission=AdmissionRule(batch_slots=slots, group_size=group_size, max_lag=max_lag),
            max_attempts=1,
            concurrency=100,
            incomplete=rules.pop("incomplete", "train"),
            first_version=0,
            **rules,
        ),
        order=numbered_tasks(),
        counter=GroupCounter(),
        ledger=ledger,
        run_episode=run,
        score=score,
    )


def batch_at(step, versions_of, **rules):
    """The batch that is taken at `step` from groups that were sampled before it, with the account."""
    ledger = Ledger(noon)

    async def run(attempt):
        return versioned(attempt, versions_of(attempt))

    dispatcher = dispatcher_of(run, ledger, **rules)

    async def take():
        async with asyncio.TaskGroup() as background:
            working = background.create_task(dispatcher.run())
            collected = await asyncio.wait_for(dispatcher.collect(step), 10)
            working.cancel()
        ledger.balance()
        return collected

    return asyncio.run(take()), ledger.take_rows()


def expired(rows):
    return {(r.group_id, r.slot, r.rule) for r in rows if r.state == "expired"}


@pytest.mark.case("F76")
def test_lag_is_measured_at_the_batch_from_the_oldest_token_and_the_bound_is_inside():
    worked = case("F76")
    samples = [tuple(s["versions"]) for s in worked.input["samples"]]

    def versions_of(attempt):
        return samples[attempt.group_id] if attempt.group_id < len(samples) else (10,)

    batch, rows = batch_at(
        worked.input["trainer_version_at_use"] + 1,
        versions_of,
        slots=3,
        group_size=1,
        max_lag=worked.input["max_staleness"],
    )
    admitted = [n in {g.group_id for g in batch.groups} for n in range(len(samples))]
    assert admitted == worked.expect["admitted"]
    assert expired(rows) == {(1, 0, "lag")}
    assert [m.trajectory.group_id for m in batch.others] == [1]


@pytest.mark.row("S282")
def test_one_stale_sibling_expires_alone_and_its_group_stays():
    versions = {(0, 0): (3,), (0, 1): (2,)}
    batch, rows = batch_at(6, lambda a: versions.get((a.group_id, a.slot), (5,)))
    assert [[m.trajectory.slot for m in g.members] for g in batch.groups] == [[0], [0, 1]]
    assert batch.groups[0].size == 2 and expired(rows) == {(0, 1, "lag")}
    assert [(m.trajectory_id, m.outcome) for m in batch.others] == [("t000000-01-0", 1.0)]


def test_where_incomplete_groups_are_filtered_the_fresh_siblings_are():
    batch, rows = batch_at(6, lambda a: (2,) if (a.group_id, a.slot) == (0, 1) else (5,), incomplete="filter")
    assert [g.group_id for g in batch.groups] == [1, 2] and expired(rows) == {(0, 1, "lag")}
    assert {(r.group_id, r.slot, r.rule) for r in rows if r.state == "filtered"} == {(0, 0, "incomplete_group")}
    assert sorted(m.trajectory_id for m in batch.others) == ["t000000-00-0", "t000000-01-0"]


def test_masked_by_their_own_version_stale_tokens_leave_their_episode_in_the_batch():
    batch, rows = batch_at(6, lambda a: (1, 5) if a.group_id == 0 else (5,), over_lag="mask")
    assert [len(g.members) for g in batch.groups] == [2, 2] and expired(rows) == set()


def test_an_episode_of_which_nothing_is_young_enough_expires_under_the_mask_too():
    batch, rows = batch_at(6, lambda a: (1, 2) if a.group_id == 0 else (5,), over_lag="mask")
    assert [g.group_id for g in batch.groups] == [1, 2]
    assert expired(rows) == {(0, 0, "lag"), (0, 1, "lag")}


@pytest.mark.parametrize("over_lag", ["expire", "mask"])
def test_where_all_that_is_sampled_expires_the_run_ends_with_what_would_help(over_lag):
    with pytest.raises(ExceptionGroup) as caught:
        batch_at(6, lambda a: (1, 2), max_lag=2, over_lag=over_lag)
    error = first_of(caught.value)
    assert isinstance(error, NoProgressError)
    # Sixteen can be in flight or ready, and eight batches of four more say that none will ever be young enough.
    assert str(error).startswith("48 slots in a row expired before the batch of step 6 was full")
    decider = {"expire": "version 1 ", "mask": "version 2 "}[over_lag]
    assert decider in str(error) and "nothing older than version 3 (max_lag is 2)" in str(error)
    assert "runtime.max_lag" in str(error) and ("over_lag" in str(error)) == (over_lag == "expire")


def test_what_expired_before_a_run_ends_for_it_is_kept_to_be_read():
    ledger = Ledger(noon)

    async def run(attempt):
        return versioned(attempt, (0,))

    dispatcher = dispatcher_of(run, ledger, max_lag=0)

    async def take():
        async with asyncio.TaskGroup() as background:
            background.create_task(dispatcher.run())
            await asyncio.wait_for(dispatcher.collect(2), 10)

    with pytest.raises(ExceptionGroup):
        asyncio.run(take())
    left = dispatcher.leftovers()
    assert ledger.balance().by_state["expired"] == len(left) == 40
    assert dispatcher.leftovers() == ()


def test_a_group_that_waits_in_the_buffer_grows_old_there():
    slow = {0: 30.0}
    run = Run(
        episodes=Episodes(lambda a: slow.get(a.group_id, 1.0)),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=4, group_size=2, max_lag=1),
    ).steps(20)
    assert {(r.group_id, r.rule) for r in run.rows if r.state == "expired"} == {(0, "lag")}
    lags = [
        step - (s.policy_version or 0)
        for step, batch in enumerate(run.batches)
        for g in batch.groups
        for m in g.members
        for s in m.trajectory.segments
        if s.origin == "policy"
    ]
    assert max(lags) == 1 and run.balance.by_state["expired"] == 2


def test_an_empty_turn_has_no_age():
    attempt = Attempt(purpose="train", stage="rl", group_id=0, slot=0, attempt=0, task=task(0))
    made = versioned(attempt, (5, 9))
    shown, old, new = made.segments
    empty = replace(old, token_ids=np.array([], np.int32), behavior_logprobs=np.array([], np.float32))
    assert (oldest_version(made), newest_version(made)) == (5, 9)
    assert oldest_version(replace(made, segments=(shown, empty, replace(new, start=2)))) == 9
    assert oldest_version(replace(made, segments=(shown, empty))) is None


@pytest.mark.row("S280")
@pytest.mark.parametrize("max_lag", [0, 1, 4])
def test_the_sample_behind_the_bound_is_refused_until_the_learner_advances(max_lag):
    run = Run(
        episodes=Episodes(lambda a: 1.0),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=8, group_size=1, max_lag=max_lag),
        learn_s=1000.0,
    ).steps(4)
    started = {}
    for row in run.rows:
        if row.state == "in_flight":
            started.setdefault(row.policy_version, []).append(row.group_id)
    most = {version: 1 + max(groups) for version, groups in started.items()}
    assert all(count == (version + 1 + max_lag) * 8 for version, count in most.items() if version < 3)
