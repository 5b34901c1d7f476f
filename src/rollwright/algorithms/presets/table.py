"""Every preset by name, made anew with each call; what a source leaves open is chosen here, and is ours.

For batteries, benchmarks and explanations: a run takes its numbers from its recipe.
"""

from collections.abc import Callable, Mapping
from functools import partial

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.presets.attempts import (
    dapo,
    dr_grpo,
    gpg,
    grpo,
    opo,
    reinforce,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    remax,
    rloo,
    supervised,
)
from rollwright.algorithms.presets.published import (
    EntropyFollowingClip,
    areal,
    decoupled_ppo,
    glm5_agents,
    glm5_reasoning,
    grpo_roc,
    intellect3,
    magic,
    mai_thinking,
    prime_rl,
)
from rollwright.algorithms.presets.ratio_forms import cispo, ctpo, gmpo, gspo, maspo, sapo, topr, vespo
from rollwright.algorithms.presets.second_models import (
    compaction_rl,
    gigpo,
    mimo,
    mopd,
    opd,
    ppo,
    prime,
    sao,
    vapo,
)

__all__ = ["PRESETS"]

_MAI = EntropyFollowingClip(low=0.8, step=0.02, largest=0.1, outer_low=0.3, outer_high=3.0)

PRESETS: Mapping[str, Callable[[], Objective]] = {
    "reinforce": reinforce,
    "rloo": rloo,
    "grpo": grpo,
    "dr_grpo": partial(dr_grpo, max_tokens=2048),
    "dapo": partial(dapo, max_tokens=2048, buffer_tokens=512),
    "gspo": gspo,
    "cispo": partial(cispo, high=1.28),
    "reinforce_plus_plus": reinforce_plus_plus,
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
    "remax": remax,
    "opo": opo,
    "gpg": gpg,
    "ppo": ppo,
    "vapo": vapo,
    "sapo": sapo,
    "gmpo": gmpo,
    "topr": topr,
    "decoupled_ppo": decoupled_ppo,
    "ctpo": ctpo,
    "gigpo": partial(gigpo, weights=TokenMean()),
    "maspo": partial(maspo, gate="detached"),
    "vespo": vespo,
    "prime": prime,
    "opd": opd,
    "mopd": partial(mopd, weights=TokenMean()),
    "grpo_roc": grpo_roc,
    "magic": magic,
    "areal": areal,
    "intellect3": intellect3,
    "glm5_reasoning": partial(glm5_reasoning, weights=TokenMean()),
    "glm5_agents": partial(glm5_agents, weights=TokenMean()),
    "sao": sao,
    "compaction_rl": partial(compaction_rl, adaptive=LengthAdaptive(alpha=1.5, over="row")),
    "mimo": partial(mimo, max_scale=2.0),
    "mai_thinking": partial(mai_thinking, credit=center_within_group, clip=_MAI),
    "prime_rl": prime_rl,
    "supervised": supervised,
}
"""Name to a call that makes it; a controller belongs to one objective, so nothing is shared."""
