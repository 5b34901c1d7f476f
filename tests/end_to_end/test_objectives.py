"""The default recipe under other objectives: one command each, one seed, equal rollouts; what comes out is recorded.

The arms were fixed before any of them ran: each preset with its own defaults, and the constants that its source does
not give chosen here. Learning rate, warm start, tasks and episodes are the recipe's. No arm is tuned, so the table
says that each trains, and not which is best.
"""

import pytest

from rollwright.evidence import check
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import RECIPE

ARMS: dict[str, tuple[str, ...]] = {
    "reinforce": (),
    "rloo": (),
    "grpo": (),
    "dr_grpo": (),
    "dapo": (),
    "gspo": (),
    "cispo": ("objective.surrogate.high=1.28",),
    "reinforce_plus_plus": (),
    "opo": (),
    "gpg": (),
    "sapo": (),
    "gmpo": (),
    "topr": (),
    "decoupled_ppo": (),
    "ctpo": (),
    "intellect3": (),
    "prime_rl": (),
}
BYPASSING = frozenset({"topr", "intellect3", "prime_rl"})
"""Their ratio is current over behavior: nothing scores the policy before the update, so no mismatch is told."""
EPISODES_PER_STEP = 128
KEYS = ("steps", "seconds", "before", "after", "max_mismatch", "episodes", "content_hash")


@pytest.mark.training
@pytest.mark.parametrize("name", ARMS)
def test_the_default_recipe_trains_with_this_objective(name: str, proofs: Proofs) -> None:
    settings = [f"objective={name}", *ARMS[name]]
    words = [word for setting in settings for word in ("--set", setting)]
    command = " ".join(("rollwright train", RECIPE, *words))
    figures = proofs.recorded(command, [0])
    if figures is None:
        path, ended = proofs.run(f"{RECIPE}-{name}", RECIPE, *words, timeout_s=3000)
        assert ended.code == 0, ended.err
        assert check(path).findings == ()
        figures = {key: ended.last[key] for key in KEYS}
        proofs.record(command, [0], figures)
    before, after = figures["before"], figures["after"]
    assert after["step"] - before["step"] == 40
    assert figures["episodes"] >= 40 * EPISODES_PER_STEP
    assert before["tasks"] == after["tasks"] == 200
    mismatch = figures["max_mismatch"]
    assert mismatch is None if name in BYPASSING else mismatch < 1e-4
