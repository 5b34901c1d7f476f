"""Which checkpoints of which runs are compared: under one digest, at the newest step or where a budget matches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evaluation.comparison.spending import BUDGETS, Budget, Spending, spending_at, spending_of
from rollwright.evaluation.errors import EvaluationError
from rollwright.evidence import Manifest, RunFolder, StoredEvaluation, stored_evaluations

__all__ = ["Arm", "BudgetLine", "ComparedRun", "budget_lines", "newest_within", "pair_up", "read_run"]

_CLOSE = 1.0 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparedRun:
    """What is read of a run; it may be running, of another segment, or evaluated many times."""

    path: Path
    manifest: Manifest
    """Of its newest segment."""
    num_segments: int
    evaluations: tuple[StoredEvaluation, ...]
    spent: tuple[Spending, ...]

    @property
    def seed(self) -> int | None:
        """Of the run."""
        return self.manifest.seeds.get("run")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """One policy in question: a run, or several that differ in their seed."""

    name: str
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One budget at the checkpoints that are compared."""

    budget: Budget
    amounts: tuple[float, ...]
    """Of each arm; of several runs their mean."""

    @property
    def is_matched(self) -> bool:
        """All arms had spent the same."""
        return max(self.amounts) <= min(self.amounts) * _CLOSE


def read_run(path: Path) -> ComparedRun:
    """Read what a comparison needs.

    Args:
        path: of a run folder.
    """
    folder = RunFolder.open(path)
    return ComparedRun(
        path=path,
        manifest=folder.manifest,
        num_segments=len(folder.manifests),
        evaluations=stored_evaluations(folder),
        spent=spending_of(path),
    )


def newest_within(run: ComparedRun, sha256: str, budget: Budget | None, limit: float) -> StoredEvaluation | None:
    """The newest checkpoint of a run that was evaluated under a digest, as far as a budget goes.

    Args:
        run: that was read.
        sha256: of the protocol.
        budget: what bounds it; None: nothing does.
        limit: of the budget.

    Returns:
        The last evaluation of that step; None where there is none.
    """
    within = [
        one
        for one in run.evaluations
        if one.protocol_sha256 == sha256
        and (budget is None or spending_at(run.spent, one.step).of(budget) <= limit * _CLOSE)
    ]
    return max(within, key=lambda one: (one.step, one.commit), default=None)


def pair_up(reference: Arm, other: Arm) -> tuple[tuple[ComparedRun, ComparedRun], ...]:
    """Pairs of runs: by seed where both arms have the same seeds, else in the order given.

    Raises:
        EvaluationError: where the arms have not as many runs and no seeds in common.
    """
    seeds = [[run.seed for run in arm.runs] for arm in (reference, other)]
    if len(reference.runs) > 1 and all(len(set(one)) == len(one) and None not in one for one in seeds):
        by_seed = {run.seed: run for run in other.runs}
        pairs = tuple((run, by_seed[run.seed]) for run in reference.runs if run.seed in by_seed)
        if pairs:
            return pairs
    if len(reference.runs) != len(other.runs):
        raise EvaluationError(
            f"{reference.name} has {len(reference.runs)} runs and {other.name} {len(other.runs)}, with no seed in "
            "common; give as many runs of either, or runs of the same seeds."
        )
    return tuple(zip(reference.runs, other.runs, strict=True))


def budget_lines(chosen: Sequence[Iterable[tuple[ComparedRun, StoredEvaluation]]]) -> tuple[BudgetLine, ...]:
    """Each budget at the chosen checkpoints.

    Args:
        chosen: runs with their checkpoints, of each arm.
    """
    spent = [[spending_at(run.spent, evaluation.step) for run, evaluation in arm] for arm in chosen]
    return tuple(
        BudgetLine(
            budget=budget,
            amounts=tuple(sum(one.of(budget) for one in arm) / len(arm) for arm in spent),
        )
        for budget in BUDGETS
    )
