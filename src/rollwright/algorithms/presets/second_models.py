"""Presets that read a second model or the environment's states: critics, reward models, teachers, graders."""

from dataclasses import replace
from functools import partial

from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.distillation import teacher_gap
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.implicit_process import implicit_process_reward
from rollwright.algorithms.credit.quality import redistribute_by_quality
from rollwright.algorithms.denominators.plain import PromptMean, TokenMean
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.objective import Objective, WeightFn
from rollwright.algorithms.presets.building import clipped, corrected, gated, score_function, with_regularizer
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, staleness_ratio
from rollwright.algorithms.regularizers.positive_nll import positive_nll
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds

__all__ = ["compaction_rl", "gigpo", "mimo", "mopd", "opd", "ppo", "prime", "sao", "vapo"]

_VALUES = frozenset({"values"})
_BEHAVIOR = frozenset({"behavior"})


def ppo(*, discount: float = 1.0, decay: float = 1.0, clip: Clip | None = None) -> Objective:
    """PPO: generalised advantages of a critic, clipped, token mean (arXiv:1707.06347).

    Args:
        discount: γ.
        decay: λ of policy and critic; 1 for outcome rewards (Search-R1).
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; it needs a critic's values.
    """
    credit = partial(generalized_advantage, discount=discount, policy_lambda=decay, value_lambda=decay)
    return _reading(clipped("ppo", credit=credit, clip=clip or Clip(), weights=TokenMean()), _VALUES)


def vapo(*, alpha: float = 0.05, nll_coefficient: float = 0.1) -> Objective:
    """VAPO: length-adaptive λ for the policy and 1 for the critic, clip-higher, likelihood of successes.

    Args:
        alpha: of λ = 1 - 1/(α·l).
        nll_coefficient: μ of the likelihood term.

    Returns:
        The objective (arXiv:2504.05118); it needs a critic's values.
    """
    credit = partial(generalized_advantage, policy_lambda=LengthAdaptive(alpha=alpha))
    objective = clipped("vapo", credit=credit, clip=Clip(high=1.28), weights=TokenMean())
    term = positive_nll(coefficient=nll_coefficient)
    return with_regularizer(objective, term, needs=_VALUES)


def sao(*, decay: float = 0.95, below: float = 0.3, above: float = 5.0) -> Objective:
    """SAO: single rollouts with a critic, and a strict double-sided mask on current over behavior.

    Args:
        decay: λ of the policy; 1 for the critic.
        below: width of the band under 1.
        above: width of the band over 1.

    Returns:
        The objective; it needs a critic's values.
    """
    return gated(
        "sao",
        credit=partial(generalized_advantage, policy_lambda=decay),
        ratio=bypass_ratio,
        surrogate=DoubleSidedMask(below=below, above=above),
        weights=TokenMean(),
        needs=_BEHAVIOR | _VALUES,
    )


def compaction_rl(*, adaptive: LengthAdaptive, clip: Clip | None = None) -> Objective:
    """CompactionRL: generalised advantages over the rows of a compacted episode, clipped, token mean.

    Args:
        adaptive: α (1.5) and what l counts, which the paper leaves open.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; it needs a critic's values.
    """
    credit = partial(compaction_advantage, policy_lambda=adaptive)
    return _reading(clipped("compaction_rl", credit=credit, clip=clip or Clip(), weights=TokenMean()), _VALUES)


def gigpo(*, weights: WeightFn | None = None, discount: float = 0.95, step_weight: float = 1.0) -> Objective:
    """GiGPO: episode advantage plus that of steps which started from equal states, clipped (arXiv:2505.10978).

    Args:
        weights: the denominator, which the paper leaves open.
        discount: γ of step returns.
        step_weight: ω.

    Returns:
        The objective; it reads environment states.
    """
    credit = partial(anchor_state_advantage, discount=discount, step_weight=step_weight)
    return clipped("gigpo", credit=credit, clip=Clip(), weights=chosen("weights", weights, undisclosed_by="GiGPO"))


def prime(*, beta: float = 0.05, clip: Clip | None = None) -> Objective:
    """PRIME: leave-one-out on outcomes and on the token rewards of an implicit reward model (arXiv:2502.01456).

    Args:
        beta: of the reward model's log-ratio.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; its credit reads `process` and `process_reference` scores.
    """
    credit = partial(implicit_process_reward, beta=beta)
    return clipped("prime", credit=credit, clip=clip or Clip(), weights=TokenMean())


def opd(*, bound: float = 20.0) -> Objective:
    """On-policy distillation: the teacher's gap on the student's own tokens as advantage.

    Args:
        bound: nats; a gap beyond it is held there.

    Returns:
        The objective; it needs a teacher's scores.
    """
    objective = score_function("opd", credit=partial(teacher_gap, bound=bound), weights=TokenMean())
    return _taught(corrected(objective, correction=staleness_ratio))


def mopd(
    *, weights: WeightFn | None = None, low: float = 0.5, high: float = 2.0, clip: Clip | None = None
) -> Objective:
    """Multi-teacher distillation: each domain's teacher, clipped, tokens outside the ratio band dropped.

    Args:
        weights: the denominator, which Nemotron 3 Ultra's report leaves open.
        low: of proximal over behavior.
        high: of proximal over behavior.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; it needs a teacher's scores, chosen by domain.
    """
    rule = chosen("weights", weights, undisclosed_by="Nemotron 3 Ultra")
    objective = clipped("mopd", credit=teacher_gap, clip=clip or Clip(), weights=rule)
    masked = corrected(objective, correction=staleness_ratio, keep=MaskedRatio(low=low, high=high))
    return _taught(masked)


def mimo(*, max_scale: float | None = None, bounds: SignedBounds | None = None) -> Objective:
    """MiMo-V2.6: credit of passing rows redistributed by quality, four bounds, one mean a prompt.

    Args:
        max_scale: λ_max of the redistribution; MiMo does not give it.
        bounds: None is [0.2, 5] for either sign.

    Returns:
        The objective; its credit reads `quality`.
    """
    return gated(
        "mimo",
        credit=partial(redistribute_by_quality, max_scale=max_scale),
        ratio=bypass_ratio,
        surrogate=bounds or SignedBounds(),
        weights=PromptMean(),
        needs=_BEHAVIOR,
    )


def _taught(objective: Objective) -> Objective:
    """The same objective with what a teacher's gap reads: the teacher's scores, and the student's before the update."""
    return replace(_reading(objective, frozenset({"teacher"})), before_credit=frozenset({"proximal"}))


def _reading(objective: Objective, streams: frozenset[str]) -> Objective:
    """The same objective with what its credit reads."""
    return replace(objective, needs=objective.needs | streams)
