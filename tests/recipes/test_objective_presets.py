"""A recipe's preset and the library's are one composition: the same parts with the same numbers."""

from dataclasses import dataclass, replace
from typing import get_args

import pytest
from pydantic import TypeAdapter

from rollwright.algorithms.controllers import controllers_of
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive
from rollwright.algorithms.credit.truncation import mask_truncated, penalize_overlong
from rollwright.algorithms.denominators.plain import PromptMean, ResponseMean, TokenMean
from rollwright.algorithms.describe import describe
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.presets import (
    EntropyFollowingClip,
    areal,
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
    topr,
    vapo,
    vespo,
)
from rollwright.algorithms.trial import stages_of
from rollwright.recipes.build.objective import Sizes, compose
from rollwright.recipes.config.objective import ObjectiveConfig

SIZES = Sizes(max_tokens=16, num_rows=8)
OF_THE_ROLLOUT = (mask_truncated, penalize_overlong)
"""Stages that a recipe takes from its rollout, not from its objective."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A preset of the library, and what a recipe writes beside `kind` for it."""

    preset: Objective
    written: dict


def pair(preset, **written) -> Pair:
    return Pair(preset=preset, written=written)


BOUNDS = EntropyFollowingClip(low=0.8, step=0.01, largest=1.4, outer_low=0.5, outer_high=2.0)
PAIRS = {
    "reinforce": pair(reinforce()),
    "rloo": pair(rloo()),
    "grpo": pair(grpo()),
    "dr_grpo": pair(dr_grpo(max_tokens=SIZES.max_tokens)),
    "dapo": pair(dapo(max_tokens=16, buffer_tokens=4)),
    "gspo": pair(gspo()),
    "cispo": pair(cispo(high=1.3), surrogate={"high": 1.3}),
    "reinforce_plus_plus": pair(reinforce_plus_plus()),
    "reinforce_plus_plus_baseline": pair(reinforce_plus_plus_baseline()),
    "remax": pair(remax()),
    "opo": pair(opo()),
    "gpg": pair(gpg()),
    "ppo": pair(ppo()),
    "vapo": pair(vapo()),
    "sapo": pair(sapo()),
    "gmpo": pair(gmpo()),
    "topr": pair(topr()),
    "decoupled_ppo": pair(decoupled_ppo()),
    "ctpo": pair(ctpo()),
    "gigpo": pair(gigpo(weights=ResponseMean()), denominator="response_mean"),
    "maspo": pair(maspo(gate="detached"), surrogate={"gate": "detached"}),
    "vespo": pair(vespo()),
    "prime": pair(prime()),
    "opd": pair(opd()),
    "mopd": pair(mopd(weights=PromptMean()), denominator="prompt_mean"),
    "grpo_roc": pair(grpo_roc()),
    "magic": pair(magic()),
    "areal": pair(areal()),
    "intellect3": pair(intellect3()),
    "glm5_reasoning": pair(glm5_reasoning(weights=TokenMean()), denominator="token_mean"),
    "glm5_agents": pair(glm5_agents(weights=ResponseMean()), denominator="response_mean"),
    "sao": pair(sao()),
    "compaction_rl": pair(
        compaction_rl(adaptive=LengthAdaptive(alpha=1.5, over="episode")), credit={"length_over": "episode"}
    ),
    "mimo": pair(mimo(max_scale=3.0), credit={"max_scale": 3.0}),
    "mai_thinking": pair(
        mai_thinking(credit=center_within_group, clip=BOUNDS),
        credit={"kind": "group_centered"},
        surrogate={"clip_low": 0.2, "step": 0.01, "largest": 1.4, "outer_low": 0.5, "outer_high": 2.0},
    ),
    "prime_rl": pair(prime_rl()),
}
each_pair = pytest.mark.parametrize("kind", PAIRS)


def config_of(kind) -> ObjectiveConfig:
    return TypeAdapter(ObjectiveConfig).validate_python({"kind": kind, **PAIRS[kind].written})


def composed(kind):
    return compose(config_of(kind), SIZES)


def without_the_rollout(objective):
    """The objective without the stages that a recipe takes from its rollout."""
    credit = objective.credit
    while (found := stages_of(credit)) and found[0].func in OF_THE_ROLLOUT:
        credit = found[0].keywords["credit"]
    return replace(objective, credit=credit)


def test_every_preset_of_recipes_is_compared():
    union, _ = get_args(ObjectiveConfig)
    kinds = {one.model_fields["kind"].default for one in get_args(union)}
    assert set(PAIRS) == kinds - {"composed"}


@each_pair
def test_both_statements_of_a_preset_are_one(kind):
    assert describe(composed(kind)) == describe(without_the_rollout(PAIRS[kind].preset))


@each_pair
def test_both_have_the_same_controllers(kind):
    found, due = controllers_of(composed(kind)), controllers_of(PAIRS[kind].preset)
    assert {place: (type(one), one.state()) for place, one in found.items()} == {
        place: (type(one), one.state()) for place, one in due.items()
    }
