"""What a cut into micro-batches makes a model compute: distinct tokens over the tokens of all rows.

A beginning that rows of one micro-batch share is computed once there, and once more in every other that has it. Against
the cut by groups stands one by length alone: longest rows first, each micro-batch filled to the budget.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from made_episodes import Shape, made_groups
from report import Row

from rollwright.batches import StepBatch, UpdatePlan, cut, give_credit, lay_out, plan_updates
from rollwright.recipes.build.terms import StageTerms

SHORT = Shape(num_tokens=0, group_size=8, prompt_tokens=32, turn_tokens=40.0, turn_limit=64, max_turns=1)
LONG = Shape(num_tokens=0, group_size=16, prompt_tokens=500, turn_tokens=64.0, turn_limit=32, max_turns=1)
WORKLOADS = {
    "(a) 64 short": (SHORT, 8),
    "(b) 64 of 500 + 32": (LONG, 4),
    "512 short": (SHORT, 64),
    "512 of 500 + 32": (LONG, 32),
}
"""Shape and number of groups."""
BUDGETS = (2048, 8192)


def cut_rows(terms: StageTerms) -> list[Row]:
    """Of each workload and budget: the share of tokens that is computed, and what it was by length alone."""
    rows: list[Row] = []
    for name, (shape, num_groups) in WORKLOADS.items():
        plan = planned(shape, num_groups, terms)
        for budget in BUDGETS:
            ours = [micro.rows for micro in cut(plan, token_budget=budget)]
            peer = by_length(plan, budget)
            shares = [computed(plan.batch, parts) for parts in (ours, peer)]
            rows.append(
                Row(
                    what=f"tokens computed of those of all rows, {name}, budget {budget:,}",
                    ours=shares[0],
                    peer=shares[1],
                    ratio=shares[0] / shares[1],
                    unit="share",
                    target=1.0,
                    target_side="at_most",
                    note=f"{len(ours)} micro-batches by group, {len(peer)} by length",
                )
            )
    return rows


def planned(shape: Shape, num_groups: int, terms: StageTerms) -> UpdatePlan:
    """One update of so many groups, in each of which rewards differ."""
    groups = made_groups(replace(shape, num_tokens=num_groups * shape.group_size * (shape.prompt_tokens + 64)))
    draft = lay_out(groups[:num_groups], step=1, eligible=terms.eligible, rules=terms.rules)
    batch = give_credit(draft, terms.objective, rules=terms.rules)
    return plan_updates(batch, terms.objective, first_update=1, num_minibatches=1)[0]


def by_length(plan: UpdatePlan, budget: int) -> list[tuple[int, ...]]:
    """Longest rows first, one micro-batch after the other."""
    lengths = np.diff(plan.batch.row_offsets)
    parts: list[list[int]] = []
    room = 0
    for row in sorted(plan.rows, key=lambda row: (-int(lengths[row]), row)):
        if not parts or lengths[row] > room:
            parts.append([])
            room = budget
        parts[-1].append(row)
        room -= int(lengths[row])
    return [tuple(part) for part in parts]


def computed(batch: StepBatch, parts: Sequence[Sequence[int]]) -> float:
    """Distinct tokens of every part, over the tokens of all rows."""
    offsets = batch.row_offsets
    total = sum(int(offsets[row + 1] - offsets[row]) for part in parts for row in part)
    return (
        sum(num_distinct([batch.token_ids[offsets[row] : offsets[row + 1]] for row in part]) for part in parts) / total
    )


def num_distinct(rows: Sequence[np.ndarray]) -> int:
    """Tokens of some rows, a common beginning once: what each adds to the one before it, in their own order."""
    ordered = sorted(rows, key=lambda row: row.astype(">i4").tobytes())
    shared = 0
    for above, below in pairwise(ordered):
        width = min(len(above), len(below))
        differs = above[:width] != below[:width]
        shared += int(differs.argmax()) if differs.any() else width
    return sum(map(len, ordered)) - shared
