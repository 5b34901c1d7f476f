"""Runs side by side: what differs between them, then numbers that compare, then those that do not and why.

manifests ──► differing fields     evaluations ──► one digest in both ──► paired differences, taxes, budgets
                                              └──► another digest ──────► what differs between the protocols
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evaluation.comparison.manifests import ManifestField, differing_fields, equal_sections
from rollwright.evaluation.comparison.paired import Difference, Pair, Tax, differences, tax_of
from rollwright.evaluation.comparison.selection import (
    Arm,
    BudgetLine,
    ComparedRun,
    budget_lines,
    newest_within,
    pair_up,
    read_run,
)
from rollwright.evaluation.comparison.spending import Budget
from rollwright.evaluation.protocol import ProtocolDifference, protocol_differences
from rollwright.evidence import StoredEvaluation

__all__ = ["Apart", "Beside", "Comparison", "Contrast", "compare_runs", "read_arm"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """One checkpoint, as it stands in the table of numbers."""

    run: ComparedRun
    evaluation: StoredEvaluation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contrast:
    """An arm against the first, under one protocol."""

    protocol: str
    arm: str
    beside: tuple[Beside, ...]
    """The checkpoints that are compared, of the first arm and of this one by turns."""
    budgets: tuple[BudgetLine, ...]
    differences: tuple[Difference, ...]
    tax: Tax | None
    """None for several runs an arm, and below two attempts a task."""
    matched_by: Budget | None
    limit: float | None
    """Of that budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Numbers of one name that do not compare."""

    protocol: str
    arm: str
    reason: str
    differences: tuple[ProtocolDifference, ...]
    """What the protocols do not hold alike, where both are known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """All that a comparison says, in its order."""

    arms: tuple[Arm, ...]
    fields: tuple[ManifestField, ...]
    """In which the first runs of the arms differ."""
    equal_sections: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    apart: tuple[Apart, ...]


def read_arm(paths: Sequence[Path]) -> Arm:
    """An arm of one run, or of several.

    Args:
        paths: of their folders.
    """
    return Arm(name=",".join(path.name for path in paths), runs=tuple(read_run(path) for path in paths))


def compare_runs(arms: Sequence[Arm], *, matched_by: Budget | None = None, level: float = 0.95) -> Comparison:
    """Compare arms with the first of them.

    Args:
        arms: two or more.
        matched_by: the budget at which checkpoints are taken: in each run the newest within what the run that spent
            least had spent at its last evaluation. None: the newest of each.
        level: of the intervals.

    Raises:
        EvaluationError: where arms of several runs cannot be paired.
    """
    fields = differing_fields([arm.runs[0].manifest for arm in arms])
    contrasts: list[Contrast] = []
    apart: list[Apart] = []
    for other in arms[1:]:
        pairs = pair_up(arms[0], other)
        names = dict.fromkeys(e.protocol for pair in pairs for run in pair for e in run.evaluations)
        for name in names:
            found = _contrasts(name, other.name, pairs, (matched_by, level))
            contrasts += found
            if not found:
                apart.append(_apart(name, other.name, pairs))
    return Comparison(
        arms=tuple(arms),
        fields=fields,
        equal_sections=equal_sections(fields),
        contrasts=tuple(contrasts),
        apart=tuple(apart),
    )


def _contrasts(
    name: str, arm: str, pairs: Sequence[tuple[ComparedRun, ComparedRun]], asked: tuple[Budget | None, float]
) -> list[Contrast]:
    """One for each digest of this name that both runs of a single pair have; of several pairs, one of them all."""
    digests = [_shared_digests(name, pair) for pair in pairs]
    if not all(digests):
        return []
    rounds = [[one] for one in digests[0]] if len(pairs) == 1 else [[found[-1] for found in digests]]
    return [found for chosen in rounds if (found := _contrast(name, arm, list(zip(pairs, chosen, strict=True)), asked))]


def _contrast(
    name: str,
    arm: str,
    chosen: Sequence[tuple[tuple[ComparedRun, ComparedRun], str]],
    asked: tuple[Budget | None, float],
) -> Contrast | None:
    matched_by, level = asked
    limit = _limit(chosen, matched_by)
    sides: tuple[list[Beside], list[Beside]] = ([], [])
    for pair, sha256 in chosen:
        for run, side in zip(pair, sides, strict=True):
            evaluation = newest_within(run, sha256, matched_by, limit or 0.0)
            if evaluation is None:
                return None
            side.append(Beside(run=run, evaluation=evaluation))
    pairs = [Pair(reference=one.evaluation, other=other.evaluation) for one, other in zip(*sides, strict=True)]
    return Contrast(
        protocol=name,
        arm=arm,
        beside=tuple(one for both in zip(*sides, strict=True) for one in both),
        budgets=budget_lines([[(one.run, one.evaluation) for one in side] for side in sides]),
        differences=differences(pairs, level=level),
        tax=tax_of(pairs[0], level=level) if len(pairs) == 1 else None,
        matched_by=matched_by,
        limit=limit,
    )


def _limit(chosen: Sequence[tuple[tuple[ComparedRun, ComparedRun], str]], budget: Budget | None) -> float | None:
    """What the run that spent least had spent when it was last evaluated."""
    if budget is None:
        return None
    last = [(run, newest_within(run, sha256, None, 0.0)) for pair, sha256 in chosen for run in pair]
    spent = [
        next(one for one in reversed(run.spent) if one.step <= evaluation.step).of(budget)
        for run, evaluation in last
        if evaluation is not None
    ]
    return min(spent)


def _shared_digests(name: str, pair: tuple[ComparedRun, ComparedRun]) -> list[str]:
    one, other = (dict.fromkeys(e.protocol_sha256 for e in run.evaluations if e.protocol == name) for run in pair)
    return [sha256 for sha256 in one if sha256 in other]


def _apart(name: str, arm: str, pairs: Sequence[tuple[ComparedRun, ComparedRun]]) -> Apart:
    """Why the numbers of a protocol's name do not compare."""
    for one, other in pairs:
        mine, theirs = ([e for e in run.evaluations if e.protocol == name] for run in (one, other))
        if not mine or not theirs:
            lacking = other if mine else one
            command = f"rollwright eval {shlex.quote(str(lacking.path))} --protocol"
            reason = f"{lacking.path} was never evaluated under it; `{command}` does that"
            return Apart(protocol=name, arm=arm, reason=reason, differences=())
        if mine[-1].protocol_sha256 != theirs[-1].protocol_sha256:
            found = protocol_differences((mine[-1].facts, theirs[-1].facts))
            listed = ", ".join(d.name for d in found) or "what their digests are made of was not noted"
            reason = f"two protocols of one name, with other digests: {listed}"
            return Apart(protocol=name, arm=arm, reason=reason, differences=found)
    return Apart(protocol=name, arm=arm, reason="no checkpoint lies within the budget", differences=())
