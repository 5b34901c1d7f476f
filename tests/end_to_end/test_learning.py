"""The default recipe learns: on three seeds, from below 0.60 to at least 0.90 on 200 held-out tasks."""

import pytest

from rollwright.evidence import check
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import RECIPE
from tools.claims import broken_claims


@pytest.mark.training
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_recipe_learns_to_use_the_tool(seed: int, proofs: Proofs) -> None:
    command = f"rollwright train {RECIPE} --seed {seed}"
    figures = proofs.recorded(command, [seed])
    if figures is None:
        path, ended = proofs.run(f"{RECIPE}-seed{seed}", RECIPE, "--seed", str(seed), timeout_s=3000)
        assert ended.code == 0, ended.err
        assert check(path).findings == ()
        keys = ("steps", "seconds", "before", "after", "max_mismatch", "content_hash")
        figures = {key: ended.last[key] for key in keys}
        proofs.record(command, [seed], figures)
    assert broken_claims(figures) == []
    assert figures["max_mismatch"] < 1e-4
