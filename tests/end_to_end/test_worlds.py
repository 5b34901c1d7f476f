"""The tiny model learns in worlds that ship: by recipe, on seeds fixed before the first run, held-out before and after.

Each recipe's own numbers, none tuned to a seed. What is claimed is that the intervals before and after RL, clustered by
task, do not touch; how far each comes is recorded.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from rollwright.evidence import check, query
from tests.end_to_end.proofs import Proofs

RUNS = [
    ("interpreter-tiny", 0),
    ("interpreter-tiny", 1),
    ("workplace-tiny", 0),
    ("workplace-tiny", 1),
    ("text-world-tiny", 0),
    ("text-world-tiny", 1),
    ("text-world-tiny", 2),
]
"""Three seeds for one of them, two for the others."""
KEYS = ("steps", "seconds", "before", "after", "max_mismatch", "episodes", "content_hash")
FOREIGN_RECEIPTS = """
SELECT count(*) FROM receipts JOIN segments USING (trajectory_id, segment)
WHERE segments.origin NOT IN ('policy', 'demonstration')
"""
"""Receipts of what tools, users or the environment wrote; there may be none."""


@pytest.mark.training
@pytest.mark.parametrize(("recipe", "seed"), RUNS)
def test_the_tiny_model_learns_in_this_world(recipe: str, seed: int, proofs: Proofs) -> None:
    command = f"rollwright train {recipe} --seed {seed}"
    figures: Mapping[str, Any] | None = proofs.recorded(command, [seed])
    if figures is None:
        path, ended = proofs.run(f"{recipe}-seed{seed}", recipe, "--seed", str(seed), timeout_s=3000)
        assert ended.code == 0, ended.err
        assert check(path).findings == ()
        [(foreign,)] = query(path, FOREIGN_RECEIPTS).rows
        figures = {**{key: ended.last[key] for key in KEYS}, "foreign_receipts": foreign}
        proofs.record(command, [seed], figures)
    before, after = figures["before"], figures["after"]
    assert before["tasks"] == after["tasks"] >= 100
    assert before["high"] < after["low"]
    assert figures["foreign_receipts"] == 0
    assert figures["max_mismatch"] < 1e-4
