"""Credit by group and by batch: M01 to M11, M16 to M18, M31 to M34.

R is a row's reward, R̄ the mean of its group's episodes, s their standard deviation, G their number; r_t rewards on the
way, G_t = Σ_{u≥t} γ^{u−t} r_u the return to go over action tokens; n a row's action tokens.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Fact, Method, Part
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.comparison import compare_within
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.roles import blend_rewards, freeze_roles
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.successes import imitate_successes
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    scale_advantages,
    whiten_advantages,
    whiten_over_batch,
)
from rollwright.algorithms.denominators.equal_siblings import EqualSiblings

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "credit_groups"
_TOKENS: Final[frozenset[Fact]] = frozenset({"token_credit"})

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M01",
        name="REINFORCE return to go",
        family=_FAMILY,
        formula="A_t = Σ_{u≥t} γ^{u−t} r_u − β",
        source="Williams 1992",
        where=(
            "rollwright.algorithms.credit.return_to_go:return_to_go",
            "rollwright.algorithms.credit.moved_rewards:move_to_actions",
        ),
        note="verl b178a3c ends the return at an observation, verl 1dda039 loses a reward that stands on one; here it "
        "moves to an action token, and observations take no time.",
    ),
    Method(
        id="M02",
        name="running baseline by key",
        family=_FAMILY,
        formula="A = R − β_key, then β_key ← δ·β_key + (1 − δ)·R",
        source="arXiv:2506.24119 (SPIRAL); public: prime-rl",
        where=("rollwright.algorithms.credit.running_baseline:RunningBaseline",),
    ),
    Method(
        id="M03",
        name="leave one out",
        family=_FAMILY,
        formula="A = R − Σ_{j≠i} R_j/(G − 1) = G/(G − 1)·(R − R̄)",
        source="arXiv:2402.14740 (RLOO)",
        where=("rollwright.algorithms.credit.leave_one_out:leave_one_out",),
        note="for a single attempt verl gives R in its loop and 0 in its vector form; here it is 0.",
    ),
    Method(
        id="M04",
        name="group mean and standard deviation",
        family=_FAMILY,
        formula="A = (R − R̄)/(s + ε)",
        source="arXiv:2402.03300 (GRPO)",
        where=("rollwright.algorithms.credit.standardized:standardize_within_group",),
        note="the publication gives no ddof; verl and TRL have 1, the default here. ε is 1e-6 in verl, 1e-4 in TRL.",
    ),
    Method(
        id="M05",
        name="group mean",
        family=_FAMILY,
        formula="A = R − R̄",
        source="arXiv:2503.20783 (Dr.GRPO); public: prime-rl",
        where=("rollwright.algorithms.credit.centered:center_within_group",),
    ),
    Method(
        id="M06",
        name="return whitened over the batch",
        family=_FAMILY,
        formula="A_t = (G_t − μ)/√(σ² + ε) over all tokens of the step",
        source="arXiv:2501.03262 (REINFORCE++); public: verl",
        where=(
            "rollwright.algorithms.credit.whitening:whiten_over_batch",
            "rollwright.algorithms.credit.whitening:whiten_advantages",
            "rollwright.algorithms.credit.moments:Moments",
        ),
    ),
    Method(
        id="M07",
        name="centered in the group, scaled over the batch",
        family=_FAMILY,
        formula="A = (a − μ)/√(σ² + ε) or a/(σ + ε) with a = R − R̄, or (R − μ)/(σ + ε)",
        source="arXiv:2501.03262 (REINFORCE++-baseline), arXiv:2510.13786 (ScaleRL), arXiv:2505.24298 (AReaL)",
        where=(
            "rollwright.algorithms.credit.whitening:center_then_whiten_tokens",
            "rollwright.algorithms.credit.whitening:center_then_scale_by_batch",
            "rollwright.algorithms.credit.whitening:normalize_over_tokens",
            "rollwright.algorithms.credit.whitening:scale_advantages",
        ),
        note="verl whitens groups without contrast too, so that they get an advantage: level_groups='whiten'.",
    ),
    Method(
        id="M08",
        name="greedy baseline",
        family=_FAMILY,
        formula="A_t = Σ_{u≥t} r_u − R(greedy attempt)",
        source="arXiv:2310.10505 (ReMax); public: verl",
        where=("rollwright.algorithms.credit.greedy_baseline:subtract_greedy",),
    ),
    Method(
        id="M09",
        name="length-weighted baseline",
        family=_FAMILY,
        formula="A = R − Σ n·R/Σ n over the group",
        source="arXiv:2505.23585 (OPO); public: verl",
        where=("rollwright.algorithms.credit.length_weighted:length_weighted_baseline",),
        note="for a single attempt verl gives R; here it is 0.",
    ),
    Method(
        id="M10",
        name="optimal token baseline",
        family=_FAMILY,
        formula="A_t = G_t − Σ G_t·W_t/(Σ W_t + ε) over rows alive at t, W_t = Σ_{j≤t} ρ_j²·(1 − 2π_j + Σπ²)",
        source="public: verl",
        where=(
            "rollwright.algorithms.credit.optimal_token:optimal_token_baseline",
            "rollwright.algorithms.credit.optimal_token:score_norm_sums",
        ),
        note="where one row alone is alive, tail='zero' leaves its return (verl 1dda039), tail='own' gives no credit "
        "(verl b178a3c for single turns).",
    ),
    Method(
        id="M11",
        name="rescaled by informative groups",
        family=_FAMILY,
        formula="A = α·(R − R̄)/F, α = rows/(rows of groups with contrast)",
        source="arXiv:2504.02546 (GPG); public: verl",
        where=("rollwright.algorithms.credit.informative:rescale_informative",),
        note="verl counts rows with a reward other than 0: counting='nonzero_reward'.",
    ),
    Method(
        id="M16",
        name="episode return to calls",
        family=_FAMILY,
        formula="A = R − mean of R over episodes, or over calls, on every call of the episode",
        source="arXiv:2508.03680 (Agent Lightning)",
        where=("rollwright.algorithms.credit.calls:broadcast_to_calls",),
    ),
    Method(
        id="M17",
        name="comparison by role and parent, and equal siblings",
        family=_FAMILY,
        formula="A = credit within rows of equal (role, parent); weight 1/(E·S·n) for S siblings of E rollouts",
        source="public: prime-rl (hierarchical GRPO); the mass of siblings is derived here",
        where=(
            "rollwright.algorithms.credit.comparison:compare_within",
            "rollwright.algorithms.denominators.equal_siblings:EqualSiblings",
            "rollwright.algorithms.credit.roles:blend_rewards",
            "rollwright.algorithms.credit.roles:freeze_roles",
        ),
    ),
    Method(
        id="M18",
        name="pivot turns",
        family=_FAMILY,
        formula="keep turns with σ² > 0 and μ < τ over local attempts",
        source="arXiv:2603.21383 (PivotRL)",
        where=("rollwright.algorithms.credit.pivots:find_pivots",),
        undisclosed={"threshold": "PivotRL (arXiv:2603.21383)"},
    ),
    Method(
        id="M31",
        name="divided by the group mean",
        family=_FAMILY,
        formula="A = (R − R̄)/R̄",
        source="arXiv:2602.02710 (MaxRL); public: prime-rl",
        where=("rollwright.algorithms.credit.maximum_likelihood:divide_by_mean",),
        note="with groups without success at 0 it is likelihood cut at order G − 1, not G.",
    ),
    Method(
        id="M32",
        name="best of k",
        family=_FAMILY,
        formula="A = (k/n)·C(n − c, k − 1)/C(n − 1, k − 1) for a success, 0 for a failure; or r_max − r_2nd",
        source="derived here; public: verl (GRPO_PASSK)",
        where=(
            "rollwright.algorithms.credit.pass_at_k:pass_at_k_credit",
            "rollwright.algorithms.credit.pass_at_k:pass_at_k_scores",
            "rollwright.algorithms.credit.pass_at_k:best_minus_second",
        ),
        note="verl divides the lead by the standard deviation where asked: scaling='std'.",
    ),
    Method(
        id="M33",
        name="normalized by task source",
        family=_FAMILY,
        formula="A = (A − μ_source)/(σ_source + ε) over the source's tokens",
        source="arXiv:2510.04206 (AgentRL)",
        where=("rollwright.algorithms.credit.by_source:normalize_by_source",),
    ),
    Method(
        id="M34",
        name="imitation of successes",
        family=_FAMILY,
        formula="target ∝ π_old·1{R ≥ τ}; A = 1 where R ≥ τ",
        source="arXiv:2203.14465 (STaR), arXiv:2312.06585 (ReST-EM)",
        where=(
            "rollwright.algorithms.credit.successes:imitate_successes",
            "rollwright.algorithms.credit.successes:condition_on_success",
        ),
    ),
)

PARTS: Final[tuple[Part, ...]] = (
    Part(
        make=return_to_go,
        role="credit",
        method="M01",
        formula="A_t = Σ_(u≥t) {discount}^(u−t)·r_u − {baseline}",
        facts=_TOKENS,
    ),
    Part(
        make=RunningBaseline,
        role="credit",
        method="M02",
        formula="A = R − β by {by}, β from {initial} by β ← {decay}·β + (1 − {decay})·R",
    ),
    Part(make=leave_one_out, role="credit", method="M03", formula="A = R − mean of the other episodes of the group"),
    Part(make=standardize_within_group, role="credit", method="M04", formula="A = (R − R̄)/(s + {eps}), ddof {ddof}"),
    Part(make=center_within_group, role="credit", method="M05", formula="A = R − R̄"),
    Part(
        make=whiten_over_batch,
        role="credit",
        method="M06",
        formula="A_t = (G_t − μ)/√(σ² + {eps}) over the step's tokens, γ = {discount}, ddof {ddof}",
        facts=_TOKENS,
    ),
    Part(
        make=whiten_advantages,
        role="credit",
        method="M06",
        formula="({credit} − μ)/σ over the step's tokens, {eps} beside the {guard}, ddof {ddof}",
    ),
    Part(
        make=center_then_whiten_tokens,
        role="credit",
        method="M07",
        formula="A = (R − R̄ − μ)/√(σ² + {eps}) over the step's tokens, ddof {ddof}, level groups: {level_groups}",
    ),
    Part(
        make=center_then_scale_by_batch,
        role="credit",
        method="M07",
        formula="A = (R − R̄)/(σ(R − R̄) + {eps}) over the step's episodes, ddof {ddof}",
    ),
    Part(
        make=normalize_over_tokens,
        role="credit",
        method="M07",
        formula="A = (R − μ)/(σ + {eps}) over the step's tokens, ddof {ddof}",
    ),
    Part(
        make=scale_advantages,
        role="credit",
        method="M07",
        formula="({credit})/σ over the step's tokens, {eps} beside the {guard}, ddof {ddof}",
    ),
    Part(
        make=subtract_greedy,
        role="credit",
        method="M08",
        formula="A_t = Σ_(u≥t) r_u − R(greedy attempt)",
        facts=_TOKENS,
    ),
    Part(make=length_weighted_baseline, role="credit", method="M09", formula="A = R − Σ n·R/Σ n over the group"),
    Part(
        make=optimal_token_baseline,
        role="credit",
        method="M10",
        formula="A_t = G_t − Σ G_t·W_t/(Σ W_t + {eps}), W_t = Σ_(j≤t) min(ρ_j, {max_ratio})²·(1 − 2π_j + Σπ²), "
        "lone tail {tail}",
        facts=_TOKENS,
    ),
    Part(
        make=rescale_informative,
        role="credit",
        method="M11",
        formula="A = (rows/informative {counting})·(R − R̄)/{norm}",
    ),
    Part(
        make=broadcast_to_calls,
        role="credit",
        method="M16",
        formula="A = R − mean of R over each {baseline} of the group, on every call",
    ),
    Part(make=compare_within, role="credit", method="M17", formula="{credit}, compared within rows of equal {by}"),
    Part(
        make=blend_rewards,
        role="credit",
        method="M17",
        formula="{credit} of {trajectory}·R + {role}·R_role + {turn}·r_t, turns {turns}",
    ),
    Part(make=freeze_roles, role="credit", method="M17", formula="{credit}, 0 in rows of roles {roles}"),
    Part(
        make=EqualSiblings,
        role="weights",
        method="M17",
        formula="w = 1/(E·S·n), E rollouts, S siblings with tokens, n tokens of the row",
    ),
    Part(make=divide_by_mean, role="credit", method="M31", formula="A = (R − R̄)/R̄"),
    Part(
        make=pass_at_k_credit,
        role="credit",
        method="M32",
        formula="A = ({k}/n)·C(n − c, {k} − 1)/C(n − 1, {k} − 1) where R ≥ {success_at}, else 0",
    ),
    Part(
        make=best_minus_second,
        role="credit",
        method="M32",
        formula="A = r_max − r_2nd for the best, else 0; scaling {scaling} (ddof {ddof}, ε {eps})",
    ),
    Part(
        make=normalize_by_source,
        role="credit",
        method="M33",
        formula="({credit} − μ)/(σ + {eps}) within each source, ddof {ddof}",
    ),
    Part(make=imitate_successes, role="credit", method="M34", formula="A = 1 where R ≥ {threshold}, else withheld"),
)
