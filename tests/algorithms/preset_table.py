"""Every preset of the library in one table, with what its publication leaves open chosen, and what holds of it.

A new preset adds a row here; the battery does the rest.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pytest

from rollwright.algorithms import Keep, Objective, Regularizer, TokenMean, kl_k3, staleness_ratio
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive
from rollwright.algorithms.denominators.plain import PromptMean, ResponseMean
from rollwright.algorithms.flags import TOKEN_MASK, raise_flag
from rollwright.algorithms.presets import (
    EntropyFollowingClip,
    areal,
    bypassing_proximal,
    cispo,
    compaction_rl,
    ctpo,
    dapo,
    decoupled_ppo,
    dr_grpo,
    gigpo,
    glm5_agents,
    glm5_reasoning,
    gmpo,
    gpg,
    grpo,
    grpo_roc,
    gspo,
    intellect3,
    magic,
    mai_thinking,
    maspo,
    mimo,
    mopd,
    opd,
    opo,
    ppo,
    prime,
    prime_rl,
    reinforce,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    remax,
    rloo,
    sao,
    sapo,
    supervised,
    topr,
    vapo,
    vespo,
    with_regularizer,
)
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


def with_keep(objective, counting):
    return replace(
        objective,
        keep=keep_near,
        correction=staleness_ratio,
        weights=TokenMean(counting=counting),
        needs=objective.needs | {"behavior", "proximal"},
    )


compared = partial(Row, shift="group", level="group")
"""Attempts of a group are compared, and nothing else."""
counted = partial(compared, token_global=True)
"""So, and every token counts alike, whatever row it stands in."""
returned = partial(Row, shift="never", level="moves", credits_alone=True)
"""Rewards count as they are."""

batched = partial(Row, shift="batch", level="batch", local=False, token_global=True, credits_alone=True)
"""Rewards are compared over the whole batch."""

ENTROPY_BOUNDS = EntropyFollowingClip(low=0.8, step=0.01, largest=1.4, outer_low=0.5, outer_high=2.0)

ROWS = {
    "reinforce": returned(objective=reinforce(baseline=0.5), why="a constant baseline"),
    "rloo": compared(objective=rloo()),
    "grpo": compared(objective=grpo()),
    "grpo with kl": compared(objective=with_kl(grpo())),
    "grpo bypass": compared(objective=bypassing_proximal(grpo())),
    "grpo, masked": counted(objective=with_keep(grpo(), "structural")),
    "grpo, masked, kept": counted(objective=with_keep(grpo(), "kept")),
    "dr_grpo": compared(objective=dr_grpo(max_tokens=16)),
    "dapo": compared(objective=dapo(max_tokens=6, buffer_tokens=4), level="moves", why="lengths are penalised"),
    "reinforce_plus_plus": batched(objective=reinforce_plus_plus(), why="whitened over the batch"),
    "reinforce_plus_plus_baseline": counted(objective=reinforce_plus_plus_baseline(), local=False),
    "remax": returned(objective=remax(), why="compared with the greedy attempt"),
    "opo": counted(objective=opo()),
    "gpg": compared(objective=gpg(), local=False),
    "supervised": returned(
        objective=supervised(), shift="group", trains_unscored=True, token_global=True, why="imitates every row"
    ),
    "gspo": compared(objective=gspo()),
    "gspo, wide": compared(objective=gspo(clip=SequenceClip(low=0.8, high=1.2))),
    "cispo": counted(objective=cispo(high=1.3), held="weights"),
    "sapo": compared(objective=sapo()),
    "gmpo": compared(objective=gmpo()),
    "topr": compared(objective=topr(), held="weights"),
    "ctpo": compared(objective=ctpo(), held="other tokens"),
    "maspo": counted(objective=maspo(gate="differentiated")),
    "maspo, detached": counted(objective=maspo(gate="detached"), held="gate"),
    "vespo": compared(objective=vespo(), held="weights"),
    "decoupled_ppo": counted(objective=decoupled_ppo()),
    "areal": batched(objective=areal(), why="normalised over the batch"),
    "grpo_roc": counted(objective=grpo_roc()),
    "magic": counted(objective=magic()),
    "intellect3": counted(objective=intellect3(), held="weights"),
    "glm5_reasoning": counted(objective=glm5_reasoning(weights=TokenMean())),
    "glm5_agents": compared(objective=glm5_agents(weights=ResponseMean())),
    "mai_thinking": counted(objective=mai_thinking(credit=center_within_group, clip=ENTROPY_BOUNDS)),
    "prime_rl": counted(objective=prime_rl()),
    "ppo": returned(objective=ppo(discount=0.9, decay=0.8), why="compared with a critic"),
    "vapo": returned(objective=vapo(), why="compared with a critic"),
    "sao": returned(objective=sao(), why="compared with a critic"),
    "compaction_rl": returned(
        objective=compaction_rl(adaptive=LengthAdaptive(alpha=1.5, over="row")), why="compared with a critic"
    ),
    "gigpo": returned(
        objective=gigpo(weights=PromptMean()),
        credits_alone=False,
        reads_turns=True,
        why="steps are compared at unequal distances from the end",
    ),
    "prime": compared(objective=prime(), level="moves", why="process rewards differ by token"),
    "opd": returned(objective=opd(), shift="group", token_global=True, why="the teacher's gap is the credit"),
    "mopd": returned(
        objective=mopd(weights=TokenMean()), shift="group", token_global=True, why="the teacher's gap is the credit"
    ),
    "mimo": compared(objective=mimo(max_scale=3.0), shift="never", why="what passes is told by the reward"),
}

every_preset = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
