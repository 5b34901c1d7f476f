"""Run folders whose evaluations are made by hand: who succeeded at what, under which protocol, after which step."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from rollwright.evaluation import EvaluationProtocol
from rollwright.evaluation.measures import measure
from rollwright.evidence import CommitRows, RunFolder, note_protocol
from rollwright.record import ScoredTrajectory, evaluation_reset_seed
from tests.evaluation.held_out import held_out, noon, protocol, scored
from tests.evidence import runs

Outcomes = Mapping[int, Sequence[float | str]]
"""Number of a task to the outcomes of its samples."""


def attempts(of: EvaluationProtocol, outcomes: Outcomes) -> list[ScoredTrajectory]:
    """The episodes of an evaluation, seeded as the protocol seeds them."""
    made = []
    for number, values in outcomes.items():
        for sample, value in enumerate(values):
            one = scored(number, value, sample=sample)
            seed = evaluation_reset_seed(of.sha256, one.trajectory.task.task_id)
            made.append(dataclasses.replace(one, trajectory=dataclasses.replace(one.trajectory, reset_seed=seed)))
    return made


def evaluated_run(
    path: Path,
    *evaluations: tuple[int, EvaluationProtocol, Outcomes],
    steps: int = 2,
    is_noted: bool = True,
    **changed,
) -> Path:
    """A run of so many steps, with evaluations of some of them as later commands add them."""
    with RunFolder.create(path, runs.manifest(run_id=path.name, **changed), "") as folder:
        for step in range(1, steps + 1):
            folder.commit(runs.trained_step(step), at=runs.START)
        for step, of, outcomes in evaluations:
            if is_noted:
                note_protocol(folder, name=of.name, sha256=of.sha256, facts=of.facts)
            members = attempts(of, outcomes)
            # A later command counts its groups from its commit's number.
            shifted = [_in_groups_of(one, folder.first_group_id) for one in members]
            rows = measure(of, shifted, step=step, now=noon())
            named = [dataclasses.replace(row, evaluation=f"{row.evaluation}#{folder.next_commit}") for row in rows]
            folder.commit(
                CommitRows(kind="evaluation", step=step, trajectories=shifted, evaluations=named), at=runs.START
            )
    return path


def _in_groups_of(member: ScoredTrajectory, first: int) -> ScoredTrajectory:
    old = member.trajectory
    group = first + old.group_id
    name = f"e{group:06d}-{old.slot:02d}-{old.attempt}"
    return dataclasses.replace(member, trajectory=dataclasses.replace(old, group_id=group, trajectory_id=name))


def under(num_tasks: int, samples: int = 1, **changes) -> EvaluationProtocol:
    """A protocol over so many tasks."""
    return protocol([held_out(n) for n in range(num_tasks)], samples=samples, **changes)
