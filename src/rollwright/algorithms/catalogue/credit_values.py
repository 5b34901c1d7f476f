"""Credit from values, turns, states, process rewards, teachers, graders and flags (M12–M15, M19–M30, M45)."""

from typing import Final

from rollwright.algorithms.catalogue.entries import Method, Part
from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.distillation import (
    multi_teacher_gap,
    policy_shift,
    task_plus_teacher_gap,
    teacher_gap,
)
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.implicit_process import implicit_process_reward
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.quality import redistribute_by_quality, reject_hacks
from rollwright.algorithms.credit.segment_penalty import penalize_segments
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.v_trace import v_trace

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "credit_values"
_HERE: Final = "rollwright.algorithms"

METHODS: tuple[Method, ...] = (
    Method(
        id="M12",
        name="Generalized advantage estimation over action tokens",
        family=_FAMILY,
        formula="δₜ = rₜ + γ·Vₜ₊₁ − Vₜ;  Aₜ = δₜ + γλ·Aₜ₊₁;  target = A + V",
        source="arXiv:1506.02438; observation tokens skipped as in verl",
        where=(f"{_HERE}.credit.generalized_advantage:generalized_advantage",),
        note='Behind a truncated row stands the critic\'s value (`truncation="bootstrap"`) or nothing ("terminal").',
    ),
    Method(
        id="M13",
        name="Decoupled and length-adaptive λ (VAPO)",
        family=_FAMILY,
        formula="λ_policy = max(0, 1 − 1/(α·l));  λ_value = 1 for the critic's target",
        source="arXiv:2504.05118 (VAPO, α 0.05); Seed1.5-Thinking; CompactionRL (α 1.5)",
        where=(
            f"{_HERE}.credit.generalized_advantage:LengthAdaptive",
            f"{_HERE}.credit.generalized_advantage:generalized_advantage",
        ),
        undisclosed={"alpha": "Seed1.5-Thinking"},
    ),
    Method(
        id="M14",
        name="Turn-level GAE",
        family=_FAMILY,
        formula="δₖ = rₖ + γ·Vₖ₊₁ − Vₖ;  Aₖ = δₖ + γλ·Aₖ₊₁;  every token of turn k has Aₖ",
        source="arXiv:2402.19446 (ArCHer); verl-agent",
        where=(f"{_HERE}.credit.turn_level:turn_level_advantage",),
    ),
    Method(
        id="M15",
        name="GiGPO: comparison at equal states",
        family=_FAMILY,
        formula="A = Aᴱ + ω·Aˢ;  Aᴱ = F(G₀ among the task's episodes), Aˢ = F(Gₖ among its turns from that state)",
        source="arXiv:2505.10978; verl-agent",
        where=(f"{_HERE}.credit.anchor_state:anchor_state_advantage",),
        note="The public code counts an episode once a step in Aᴱ; here it counts once. `episode_discount` = γ is the "
        "survey's G₀, 1 the public code's.",
    ),
    Method(
        id="M19",
        name="PRIME: implicit process rewards",
        family=_FAMILY,
        formula="rₜ = β·(log π_φ − log π_ref);  Aₜ = Σ_{u≥t} γ^(u−t)·(rᵤ − mean_{j≠i} r̄ⱼ) + Rᵢ − mean_{j≠i} Rⱼ",
        source="arXiv:2502.01456; PRIME's released code",
        where=(
            f"{_HERE}.credit.implicit_process:implicit_process_reward",
            f"{_HERE}.credit.implicit_process:process_reward_loss",
        ),
        note='The released code centers by r·K/(K−1) − Σⱼ r̄ⱼ/(K−1) and then whitens: `form="released"`, without '
        "whitening. It also discounts the outcome; here the outcome is never discounted.",
    ),
    Method(
        id="M20",
        name="RL^V: a policy that verifies",
        family=_FAMILY,
        formula="L = L_RL + λ_v·CE(Yes/No);  v = π(Yes);  winner = argmaxₐ Σ_{answer = a} v",
        source="arXiv:2505.04842",
        where=(
            f"{_HERE}.credit.verdicts:verdict_loss",
            f"{_HERE}.credit.verdicts:verdict_weights",
            f"{_HERE}.credit.verdicts:verdict_scores",
            f"{_HERE}.credit.verdicts:weighted_vote",
        ),
        undisclosed={"coefficient": "RL^V"},
    ),
    Method(
        id="M21",
        name="RL-ZVP: learning from level groups",
        family=_FAMILY,
        formula="all right: Aₜ = +α·Hₜ;  all wrong: Aₜ = −α·(maxᵤ Hᵤ − Hₜ);  mixed: M04",
        source="arXiv:2509.21880",
        where=(f"{_HERE}.credit.level_groups:learn_from_level_groups",),
        undisclosed={"alpha": "RL-ZVP (one a model)"},
    ),
    Method(
        id="M22",
        name="CompactionRL: segments of one outcome",
        family=_FAMILY,
        formula="A_{s,t} = (γλ)^(action tokens of later segments)·A_local, each segment ending with R",
        source="CompactionRL eq. 12–15; GLM-5.2",
        where=(f"{_HERE}.credit.compaction:compaction_advantage",),
        undisclosed={"over": "CompactionRL"},
        note='`boundary="value"` lets the critic\'s value of the next segment follow instead; that form is ours.',
    ),
    Method(
        id="M23",
        name="On-policy distillation",
        family=_FAMILY,
        formula="Aₜ = sg(qₜ − oₜ);  full vocabulary: Σᵥ π·(log π − log π_T)",
        source="Thinking Machines, On-Policy Distillation; arXiv:2306.13649",
        where=(f"{_HERE}.credit.distillation:teacher_gap", f"{_HERE}.regularizers.full_vocabulary:exact_kl"),
        note="prime-rl drops tokens with a probability that fell by more than 0.2 and adds 1e-3·(c − b)²: that is the "
        "surrogate M63, beside this credit.",
    ),
    Method(
        id="M24",
        name="MOPD: a teacher for each domain",
        family=_FAMILY,
        formula="Aₜ = λ_d·sg(qₜ⁽ᵈ⁾ − oₜ), d the domain of the row",
        source="Nemotron Cascade 2, Nemotron Ultra",
        where=(f"{_HERE}.credit.distillation:multi_teacher_gap",),
        undisclosed={"weights": "Nemotron Cascade 2"},
        note="The keep band [0.5, 2] of proximal/behavior is M40 (`MaskedRatio`), the correction o/b is M44.",
    ),
    Method(
        id="M25",
        name="Task reward plus clipped teacher gap",
        family=_FAMILY,
        formula="A = A_task + η·clip(sg(q − o), −κ, κ)",
        source="Kimi K3 (as read in RL for LLMs); prime-rl",
        where=(f"{_HERE}.credit.distillation:task_plus_teacher_gap",),
        undisclosed={"eta": "Kimi K3", "kappa": "Kimi K3"},
        note="Older prime-rl: `task_weight` and `eta`, 1 and 0 by default.",
    ),
    Method(
        id="M26",
        name="Direct-OPD: policy shift of another model",
        family=_FAMILY,
        formula="rₜ = scale·(log π_after(yₜ) − log π_before(yₜ))",
        source="Direct-OPD (abstract)",
        where=(f"{_HERE}.credit.distillation:policy_shift",),
        undisclosed={"scale": "Direct-OPD"},
    ),
    Method(
        id="M27",
        name="Self-distillation",
        family=_FAMILY,
        formula="OPSD: Aₜ = sg(q_demo − o);  RLRT on successes: Aₜ = A + λ·max(0, o − q_demo)",
        source="prime-rl (OPSD, SDFT); RLRT (abstract)",
        where=(
            f"{_HERE}.credit.self_distillation:self_teacher_gap",
            f"{_HERE}.credit.self_distillation:reinforce_surprises",
        ),
        undisclosed={"bonus": "RLRT"},
        note="RLRT's shape is inferred from its abstract. DistIL's forward cross-entropy to an expert is `forward_kl`; "
        "how it carries future disagreement back is not published.",
    ),
    Method(
        id="M28",
        name="GRS: test reward times rubrics",
        family=_FAMILY,
        formula="R = R_test·S_solution·S_behavior",
        source="MiMo-V2.6 eq. 2",
        where=(f"{_HERE}.credit.quality:rubric_reward",),
    ),
    Method(
        id="M29",
        name="GAR: advantage moved by quality",
        family=_FAMILY,
        formula="passing: A ← λ·fᵢ·A, λ = min(λ_max, ΣA⁺/Σf·A⁺);  then A ← A − Ā;  confirmed hacks: R ← 0 first",
        source="MiMo-V2.6 eq. 3",
        where=(f"{_HERE}.credit.quality:redistribute_by_quality", f"{_HERE}.credit.quality:reject_hacks"),
        undisclosed={"max_scale": "MiMo-V2.6"},
    ),
    Method(
        id="M30",
        name="Segment penalty that keeps the mass",
        family=_FAMILY,
        formula="A > 0: 0 if flagged, else α·A, α = min(α_max, 1 + H⁺/C⁺);  "
        "A < 0: κ·A if flagged, else β·A, β = max(β_min, 1 − (κ−1)·H⁻/C⁻)",
        source="MiMo-V2.6 eq. 5",
        where=(f"{_HERE}.credit.segment_penalty:penalize_segments",),
        undisclosed={"kappa": "MiMo-V2.6", "alpha_max": "MiMo-V2.6", "beta_min": "MiMo-V2.6"},
    ),
    Method(
        id="M45",
        name="V-trace",
        family=_FAMILY,
        formula="δₜ = ρ̄ₜ(rₜ + γVₜ₊₁ − Vₜ);  vₜ = Vₜ + δₜ + γc̄ₜ(vₜ₊₁ − Vₜ₊₁);  Aₜ = ρ̄ₜ(rₜ + γvₜ₊₁ − Vₜ)",
        source="arXiv:1802.01561 (IMPALA)",
        where=(f"{_HERE}.credit.v_trace:v_trace",),
    ),
)

PARTS: tuple[Part, ...] = (
    Part(
        make=generalized_advantage,
        role="credit",
        method="M12",
        formula="Aₜ = δₜ + {discount}·{policy_lambda}·Aₜ₊₁, δₜ = rₜ + {discount}·Vₜ₊₁ − Vₜ; critic's λ {value_lambda}; "
        "truncated: {truncation}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=LengthAdaptive,
        role="credit",
        method="M13",
        formula="max(0, 1 − 1/({alpha}·l)), l over {over} (none: row)",
    ),
    Part(
        make=turn_level_advantage,
        role="credit",
        method="M14",
        formula="Aₖ = δₖ + {discount}·{decay}·Aₖ₊₁ over turns, δₖ = rₖ + {discount}·Vₖ₊₁ − Vₖ; truncated: {truncation}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=anchor_state_advantage,
        role="credit",
        method="M15",
        formula="Aᴱ(γ {episode_discount}) + {step_weight}·Aˢ(γ {discount}); scaling {scaling}, ε {eps}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=implicit_process_reward,
        role="credit",
        method="M19",
        formula="Σ_{u≥t} {discount}^(u−t)·({beta}·(log π_φ − log π_ref)ᵤ − mean of the others) + R − the others' "
        "mean R; form {form}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=learn_from_level_groups,
        role="credit",
        method="M21",
        formula="all right: {alpha}·Hₜ; all wrong: −{alpha}·(max H − Hₜ); mixed: {credit}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=compaction_advantage,
        role="credit",
        method="M22",
        formula="({discount}·{policy_lambda})^(later tokens)·A_local, critic's λ {value_lambda}; boundary {boundary}; "
        "truncated: {truncation}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=teacher_gap,
        role="credit",
        method="M23",
        formula="clip(q − {student}, ±{bound}), later gaps by {discount}",
        facts=frozenset({"token_credit", "teacher_gap"}),
    ),
    Part(
        make=multi_teacher_gap,
        role="credit",
        method="M24",
        formula="λ_d·clip(q⁽ᵈ⁾ − {student}, ±{bound}); λ {weights}; teachers {teachers}",
        facts=frozenset({"token_credit", "teacher_gap"}),
    ),
    Part(
        make=task_plus_teacher_gap,
        role="credit",
        method="M25",
        formula="{task_weight}·{credit} + {eta}·clip(q − {student}, ±{kappa})",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=policy_shift,
        role="credit",
        method="M26",
        formula="{scale}·(log π_after − log π_before), later shifts by {discount}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=self_teacher_gap,
        role="credit",
        method="M27",
        formula="clip(q_demo − {student}, ±{bound})",
        facts=frozenset({"token_credit", "teacher_gap"}),
    ),
    Part(
        make=reinforce_surprises,
        role="credit",
        method="M27",
        formula="{credit} + {bonus}·max(0, {student} − q_demo) where R ≥ {threshold}",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=reject_hacks,
        role="credit",
        method="M29",
        formula="{credit}, of R ← 0 for confirmed hacks",
    ),
    Part(
        make=redistribute_by_quality,
        role="credit",
        method="M29",
        formula="passing (R ≥ {passing}; none: R = 1): min({max_scale}, ΣA⁺/Σf·A⁺)·f·A, A = R − R̄; then centered",
    ),
    Part(
        make=penalize_segments,
        role="credit",
        method="M30",
        formula="{credit}; A > 0: flagged 0, clean ·min({alpha_max}, 1 + H⁺/C⁺); "
        "A < 0: flagged ·{kappa}, clean ·max({beta_min}, 1 − ({kappa} − 1)·H⁻/C⁻)",
        facts=frozenset({"token_credit"}),
    ),
    Part(
        make=v_trace,
        role="credit",
        method="M45",
        formula="Aₜ = min({rho_bar}, ρₜ)(rₜ + {discount}·vₜ₊₁ − Vₜ); vₜ by V-trace, c̄ {c_bar}; truncated: {truncation}",
        facts=frozenset({"token_credit", "corrects_staleness"}),
    ),
)
