"""What holds of every preset of the library: those of its own table, and some with other numbers or parts.

A new preset adds a row here; the battery does the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pytest

from rollwright.algorithms import Keep, Objective, Regularizer, TokenMean, kl_k3, staleness_ratio
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import PromptMean, ResponseMean
from rollwright.algorithms.flags import TOKEN_MASK, raise_flag
from rollwright.algorithms.objective import KeepFn
from rollwright.algorithms.presets import (
    EntropyFollowingClip,
    bypassing_proximal,
    dapo,
    dr_grpo,
    gigpo,
    glm5_agents,
    grpo,
    gspo,
    mai_thinking,
    maspo,
    ppo,
    reinforce,
    with_regularizer,
)
from rollwright.algorithms.presets.table import PRESETS
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from tests.algorithms.battery import Held

__all__ = ["ROWS", "Row", "every_preset", "with_keep", "with_kl"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A preset, and what holds of it."""

    objective: Objective
    shift: Literal["group", "batch", "never"]
    """A constant added to the rewards of a group, or only of the whole batch, changes no advantage."""
    level: Literal["group", "batch", "moves"]
    """One reward level in a group, or only in the whole batch, gives no gradient of the main component."""
    local: bool = True
    """A group's advantages follow from its own rows alone."""
    held: Held = "nothing"
    """What finite differences hold."""
    trains_unscored: bool = False
    """Trains attempts that were not scored."""
    token_global: bool = False
    """A row that is cut into two of one episode has the loss of one."""
    reads_turns: bool = False
    """Where an action becomes two turns, its credit changes."""
    credits_alone: bool = False
    """Gives an attempt that is alone in its group an advantage."""
    why: str = ""
    """What the method says, where equal rewards move the policy or a constant changes an advantage."""


def with_kl(objective, estimate=kl_k3, weights=None):
    regularizer = Regularizer(component="kl", coefficient=0.1, per_token=estimate, weights=weights or TokenMean())
    return with_regularizer(objective, regularizer, needs=frozenset({"reference"}))


def keep_near(piece):
    """A keep rule of the tests: drop tokens whose proximal policy moved far from the behavior policy."""
    is_kept = piece.action_mask & ((staleness_ratio(piece) - 1).abs() <= 0.5)
    return Keep(keep=is_kept, flags=raise_flag(piece.action_mask & ~is_kept, TOKEN_MASK))


def with_keep(objective, counting, keep: KeepFn = keep_near):
    return replace(
        objective,
        keep=keep,
        correction=staleness_ratio,
        weights=TokenMean(counting=counting),
        needs=objective.needs | {"behavior", "proximal"},
    )


COMPOSITE = CompositeMask(token=(0.7, 1.5), row_mean=(0.8, 1.2))
REJECTED = RowRejection(statistic="k3_mean", high=0.05)
"""These drop whole rows, which then leave the denominators."""
NARROW = EntropyFollowingClip(low=0.8, step=0.01, largest=0.2, outer_low=0.5, outer_high=2.0)
"""Hard bounds that the ratios of the battery reach."""

compared = partial(Row, shift="group", level="group")
"""Attempts of a group are compared, and nothing else."""
counted = partial(compared, token_global=True)
"""So, and every token counts alike, whatever row it stands in."""
returned = partial(Row, shift="never", level="moves", credits_alone=True)
"""Rewards count as they are."""
criticised = partial(returned, why="compared with a critic")
taught = partial(returned, shift="group", token_global=True, why="the teacher's gap is the credit")
batched = partial(Row, shift="batch", level="batch", local=False, token_global=True, credits_alone=True)
"""Rewards are compared over the whole batch."""
stepped = partial(
    returned,
    credits_alone=False,
    reads_turns=True,
    why="steps are compared at unequal distances from the end",
)

PUBLISHED: Mapping[str, Callable[..., Row]] = {
    "reinforce": partial(returned, why="compared with nothing"),
    "rloo": compared,
    "grpo": compared,
    "reinforce_plus_plus": partial(batched, why="whitened over the batch"),
    "reinforce_plus_plus_baseline": partial(counted, local=False),
    "remax": partial(returned, why="compared with the greedy attempt"),
    "opo": counted,
    "gpg": partial(compared, local=False),
    "supervised": partial(returned, shift="group", trains_unscored=True, token_global=True, why="imitates every row"),
    "gspo": compared,
    "cispo": partial(counted, held="weights"),
    "sapo": compared,
    "gmpo": compared,
    "topr": partial(compared, held="weights"),
    "ctpo": partial(compared, held="other tokens"),
    "maspo": partial(counted, held="gate"),
    "vespo": partial(compared, held="weights"),
    "decoupled_ppo": counted,
    "areal": partial(batched, why="normalised over the batch"),
    "grpo_roc": counted,
    "magic": counted,
    "intellect3": partial(counted, held="weights"),
    "glm5_reasoning": counted,
    "glm5_agents": counted,
    "mai_thinking": counted,
    "prime_rl": counted,
    "ppo": partial(criticised, token_global=True),
    "vapo": criticised,
    "sao": criticised,
    "compaction_rl": criticised,
    "gigpo": partial(stepped, token_global=True),
    "prime": partial(compared, level="moves", why="process rewards differ by token"),
    "opd": taught,
    "mopd": taught,
    "mimo": partial(compared, shift="never", why="what passes is told by the reward"),
}
"""Name in the library's table to what holds of it."""

VARIANTS = {
    # Rows of the battery have a few tokens, where the library's table chooses lengths of a run.
    "dr_grpo": compared(objective=dr_grpo(max_tokens=16)),
    "dapo": compared(objective=dapo(max_tokens=6, buffer_tokens=4), level="moves", why="lengths are penalised"),
    "reinforce, baseline": returned(objective=reinforce(baseline=0.5), why="a constant baseline"),
    "grpo with kl": compared(objective=with_kl(grpo())),
    "grpo bypass": compared(objective=bypassing_proximal(grpo())),
    "grpo, masked": counted(objective=with_keep(grpo(), "structural")),
    "grpo, masked, kept": counted(objective=with_keep(grpo(), "kept")),
    "grpo, composite, kept": compared(objective=with_keep(grpo(), "kept", COMPOSITE)),
    "grpo, rejected, kept": compared(objective=with_keep(grpo(), "kept", REJECTED)),
    "gspo, wide": compared(objective=gspo(clip=SequenceClip(low=0.8, high=1.2))),
    "maspo, differentiated": counted(objective=maspo(gate="differentiated")),
    "glm5_agents, rows": compared(objective=glm5_agents(weights=ResponseMean())),
    "mai_thinking, narrow": counted(objective=mai_thinking(credit=center_within_group, clip=NARROW)),
    "ppo, discounted": criticised(objective=ppo(discount=0.9, decay=0.8)),
    "gigpo, prompts": stepped(objective=gigpo(weights=PromptMean())),
}

ROWS = {**{name: of(objective=PRESETS[name]()) for name, of in PUBLISHED.items()}, **VARIANTS}

every_preset = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
