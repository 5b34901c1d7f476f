"""What a batch waits for, whose place a freed one becomes, and what a group that lost a member is worth."""

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.presets import score_function
from rollwright.algorithms.staleness.incomplete_groups import fate_of_group
from rollwright.batches import BatchRules, StepBatch, plan_step
from rollwright.record import Group, TerminalReason
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import Attempt, GroupCounter
from tests.batches.episodes import POLICY
from tests.runtime.dispatching import Episodes, Run, sources
from tests.runtime.fakes import ended, noon, numbered_tasks, score

SECONDS = (1.0, 2.0, 3.0, 9.0)
"""Of four rollouts that start together: three of them are there after 3 s, the last after 9 s."""


def seconds_of(attempt: Attempt) -> float:
    return SECONDS[attempt.group_id] if attempt.group_id < len(SECONDS) else 5.0


def gated(*, batch: int, extra: int, stragglers: str, learn_s: float = 0.0) -> Run:
    return Run(
        episodes=Episodes(seconds_of),
        order=lambda: sources({"made": 1.0}),
        admission=AdmissionRule(batch_slots=batch, group_size=1, max_lag=8 if extra else 0, extra_slots=extra),
        rules={"stragglers": stragglers},
        learn_s=learn_s,
    )


@pytest.mark.row("S092", "S238")
def test_a_gate_of_three_of_four_opens_at_3_seconds_and_not_at_9_and_the_leftover_is_trained_once():
    whole = gated(batch=4, extra=0, stragglers="wait").steps(1)
    assert whole.seconds == pytest.approx(9.0) and [g.group_id for g in whole.groups] == [0, 1, 2, 3]
    gate = gated(batch=3, extra=1, stragglers="park").steps(1)
    assert gate.seconds == pytest.approx(3.0) and [g.group_id for g in gate.groups] == [0, 1, 2]
    assert 3 in {g.group_id for g in gate.state.open_groups}
    gate = gated(batch=3, extra=1, stragglers="park", learn_s=1.0).steps(9)
    trained = Counter((r.group_id, r.slot) for r in gate.rows if r.state == "trained")
    assert trained[3, 0] == 1 and set(trained.values()) == {1}
    resumed = [a for a in gate.episodes.asked if a.group_id == 3]
    assert len(resumed) > 1 and all(a.lineage == "resumed_from" for a in resumed[1:])


# ------------------------------------------------------------------------------------------------------ single samples


class Watched:
    """Episodes that take their turns in an order of chance, some of which fail once; what started and ended is kept."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self.started: list[Attempt] = []
        self.told: list[tuple[str, int, int]] = []

    async def run(self, attempt: Attempt):
        self.started.append(attempt)
        self.told.append(("began", attempt.group_id, attempt.slot))
        for _ in range(int(self._chance.integers(1, 6))):
            await asyncio.sleep(0)
        self.told.append(("ended", attempt.group_id, attempt.slot))
        if attempt.attempt < 2 and self._chance.random() < 0.3:
            return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk")
        return ended(attempt)


def dispatcher_of(run_episode, *, places: int, score_with=score, min_fraction: float = 0.0) -> Dispatcher:
    rules = DispatchRules(
        stage="rl",
        admission=AdmissionRule(batch_slots=16, group_size=4, max_lag=0),
        max_attempts=3,
        concurrency=places,
        incomplete="train",
        min_fraction=min_fraction,
        first_version=0,
    )
    return Dispatcher(
        rules,
        order=numbered_tasks(),
        counter=GroupCounter(),
        ledger=Ledger(noon),
        run_episode=run_episode,
        score=score_with,
    )


async def first_batch(dispatcher: Dispatcher) -> tuple[Group, ...]:
    async with asyncio.TaskGroup() as background:
        working = background.create_task(dispatcher.run())
        batch = await asyncio.wait_for(dispatcher.collect(1), 10)
        working.cancel()
    return batch.groups


@pytest.mark.row("S239")
@pytest.mark.parametrize("seed", range(10))
def test_a_freed_slot_is_filled_again_inside_its_own_prompt_group_and_no_group_holds_two_prompts(seed: int):
    episodes = Watched(seed)
    groups = asyncio.run(first_batch(dispatcher_of(episodes.run, places=3)))
    # A place that a finished sample leaves goes to what its own group still has to start, not to another prompt.
    firsts = [(a.group_id, a.slot) for a in episodes.started if a.attempt == 0]
    assert firsts == sorted(firsts)
    # A slot that failed is filled again with the same prompt, in the same group.
    prompts = {g.group_id: g.task.task_id for g in groups}
    assert all(a.task.task_id == prompts[a.group_id] for a in episodes.started)
    again = [a for a in episodes.started if a.attempt > 0]
    assert {(a.group_id, a.slot) for a in again} <= set(firsts)
    assert len(set(prompts.values())) == len(prompts) == 4
    for group in groups:
        members = [m.trajectory for m in group.members]
        assert {t.task.task_id for t in members} == {group.task.task_id}
        assert {t.group_id for t in members} == {group.group_id}
        assert len({t.slot for t in members}) == len(members)


def batch_of(groups: tuple[Group, ...]) -> StepBatch:
    objective = score_function("centered", credit=center_within_group, weights=TokenMean())
    return plan_step(groups, step=1, objective=objective, eligible=POLICY, rules=BatchRules(max_lag=0), scores=())


def advantages(batch: StepBatch) -> dict[str, float]:
    """Of the first trained token of each member."""
    found: dict[str, float] = {}
    for row, start in zip(batch.rows, batch.row_offsets[:-1], strict=True):
        if row.withheld is None:
            found[batch.members[row.member].trajectory_id] = float(batch.advantages[start + 2])
    return found


async def rising(trajectories):
    """Paid by prompt and slot, so that prompts differ far more than the attempts at each."""
    return [replace(m, outcome=10.0 * m.trajectory.group_id + m.trajectory.slot) for m in await score(trajectories)]


@pytest.mark.row("S240")
@pytest.mark.parametrize("seed", range(5))
def test_samples_are_dispatched_one_by_one_and_no_two_prompts_of_a_batch_share_a_baseline(seed: int):
    episodes = Watched(seed)
    groups = asyncio.run(first_batch(dispatcher_of(episodes.run, places=6, score_with=rising)))
    # Samples start and end alone: a prompt begins while another is still being sampled, and its siblings come later.
    running: set[tuple[int, int]] = set()
    together: set[frozenset[int]] = set()
    for what, group, slot in episodes.told:
        running.add((group, slot)) if what == "began" else running.discard((group, slot))
        together.add(frozenset(g for g, _ in running))
    assert any(len(prompts) > 1 for prompts in together)
    found = advantages(batch_of(groups))
    assert len(found) == sum(len(g.members) for g in groups)
    for group in groups:
        rewards = [float(m.outcome) for m in group.members]
        due = [r - sum(rewards) / len(rewards) for r in rewards]
        assert [found[m.trajectory_id] for m in group.members] == pytest.approx(due)


# --------------------------------------------------------------------------------------------------- what is missing


def lost(slots: int):
    """Group 0 loses so many of its slots for good."""

    async def run(attempt: Attempt):
        is_lost = attempt.group_id == 0 and attempt.slot < slots
        return ended(attempt, TerminalReason.INFRASTRUCTURE_FAILURE, cause="no disk") if is_lost else ended(attempt)

    return run


@pytest.mark.row("S242")
@pytest.mark.parametrize("missing", [0, 1, 2, 3, 4])
def test_a_group_is_filled_up_at_the_declared_share_or_more_and_else_dropped_and_a_missing_score_is_no_number(
    missing: int,
):
    """What fills a place has advantage 0: it moves nothing, and its group is credited as if it were not there."""
    survivors, share = 4 - missing, 0.5
    fate = fate_of_group("pad", survivors=survivors, group_size=4, min_fraction=share)
    assert fate == ("train" if missing == 0 else "pad" if survivors >= share * 4 else "drop")
    groups = asyncio.run(first_batch(dispatcher_of(lost(missing), places=100, min_fraction=share)))
    assert (0 in {g.group_id for g in groups}) is (fate != "drop")
    if fate == "drop":
        return
    found = advantages(batch_of(groups))
    mine = [g for g in groups if g.group_id == 0][0].members
    rewards = [float(m.outcome) for m in mine]
    assert len(rewards) == survivors
    # Neither 0 nor 1 stands in for what is missing: the mean is that of what came.
    due = [r - sum(rewards) / survivors for r in rewards]
    assert [found[m.trajectory_id] for m in mine] == pytest.approx(due)
