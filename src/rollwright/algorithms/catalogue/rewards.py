"""Reward arithmetic: M115 to M124.

R is a row's reward, r_k its raw parts, w their weights.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Fact, Method, Part
from rollwright.algorithms.rewards.reward_gates import gate_step_rewards
from rollwright.algorithms.rewards.reward_parts import normalize_parts, weigh_parts
from rollwright.algorithms.rewards.tool_cost import charge_tool_calls

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "rewards"
_TOKENS: Final[frozenset[Fact]] = frozenset({"token_credit"})

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M115",
        name="verifiers and tests",
        family=_FAMILY,
        formula="1 where canonical answers agree; 1[all pass], passed/total, or 1[f2p ∧ p2p]",
        source="arXiv:2505.16400 (AceReason), arXiv:2505.24864 (ProRL)",
        where=(
            "rollwright.verifiers.numeric:numeric_verifier",
            "rollwright.verifiers.composition:Composition",
            "rollwright.algorithms.rewards.passed_tests:all_tests_passed",
            "rollwright.algorithms.rewards.passed_tests:share_of_tests",
            "rollwright.algorithms.rewards.passed_tests:repository_reward",
        ),
    ),
    Method(
        id="M116",
        name="format",
        family=_FAMILY,
        formula="correct + w·format, or correct·format",
        source="public: open-r1",
        where=("rollwright.verifiers.composition:Composition",),
    ),
    Method(
        id="M117",
        name="judges",
        family=_FAMILY,
        formula="p = (s_ab + 1 − s_ba)/2, gap |s_ab + s_ba − 1|; G calls in a circle",
        source="the report on Nemotron 3 Nano",
        where=(
            "rollwright.algorithms.rewards.judging:both_orders",
            "rollwright.algorithms.rewards.judging:circular_pairs",
            "rollwright.algorithms.rewards.judging:circular_scores",
            "rollwright.algorithms.rewards.judging:judge_reward",
        ),
    ),
    Method(
        id="M118",
        name="Bradley–Terry",
        family=_FAMILY,
        formula="−log σ(s_w − s_l)",
        source="Bradley and Terry 1952; arXiv:2203.02155",
        where=(
            "rollwright.algorithms.rewards.bradley_terry:preference_loss",
            "rollwright.algorithms.rewards.bradley_terry:preference_chance",
            "rollwright.algorithms.rewards.bradley_terry:pair_accuracy",
        ),
    ),
    Method(
        id="M119",
        name="several parts",
        family=_FAMILY,
        formula="Σ w·r then credit, or Σ w·z with z = (r − r̄)/(s + ε) then (Σ − μ)/(σ + ε) over the batch",
        source="public: TRL",
        where=(
            "rollwright.algorithms.rewards.reward_parts:weigh_parts",
            "rollwright.algorithms.rewards.reward_parts:normalize_parts",
        ),
        note="TRL counts rows of groups without contrast in the batch's spread and gives them what the mean leaves; "
        "here they are 0 and in no statistic.",
    ),
    Method(
        id="M120",
        name="gates",
        family=_FAMILY,
        formula="R_high + R_low·1[R_high ≥ θ]; mean(essential) + w·mean(additional)·1[all essential]",
        source="the abstracts of G-RA, RLR³ and SCOPE-RL",
        where=(
            "rollwright.algorithms.rewards.reward_gates:accumulate_when_open",
            "rollwright.algorithms.rewards.reward_gates:gate_step_rewards",
            "rollwright.algorithms.rewards.reward_gates:essential_first",
            "rollwright.algorithms.rewards.reward_gates:scaffolded_reward",
        ),
        undisclosed={
            "additional_weight": "the abstract of RLR³",
            "prefix_weight": "the abstract of SCOPE-RL",
            "shape_weight": "the abstract of SCOPE-RL",
        },
    ),
    Method(
        id="M121",
        name="audit of a verifier",
        family=_FAMILY,
        formula="FP = N_a·f_a/n_a, FN = N_r·f_r/n_r; (p − FPR)/(TPR − FPR)",
        source="Rogan and Gladen 1978",
        where=(
            "rollwright.statistics.verifier_audit:VerifierAudit",
            "rollwright.statistics.verifier_audit:rogan_gladen",
        ),
    ),
    Method(
        id="M122",
        name="metamorphic check",
        family=_FAMILY,
        formula="mean R − mean R after renaming; share of accepted that fail it",
        source="isomorphic perturbation testing",
        where=("rollwright.statistics.verifier_audit:metamorphic_gap",),
    ),
    Method(
        id="M123",
        name="bound on hacks that were not found",
        family=_FAMILY,
        formula="1 − (1 − level)^{1/n} at 0 of n, else the exact binomial bound",
        source="Clopper and Pearson 1934",
        where=("rollwright.statistics.verifier_audit:exact_upper_bound",),
        note="the bound is on what the audit can detect. Probes and isolation belong to environments and sandboxes.",
    ),
    Method(
        id="M124",
        name="tool cost",
        family=_FAMILY,
        formula="R − min(cap, cost·calls) where R is a success",
        source="ours",
        where=(
            "rollwright.algorithms.rewards.tool_cost:charge_tool_calls",
            "rollwright.algorithms.rewards.tool_call_score:score_tool_calls",
            "rollwright.algorithms.rewards.action_rubric:rubric_of_actions",
            "rollwright.algorithms.rewards.step_similarity:step_similarity",
        ),
        undisclosed={"weight": "the report on Nanbeige 4.2"},
        note="beside the cost stand three rewards of single actions: tool calls against expected ones "
        "(arXiv:2504.13958), a rubric of actions, and likeness to an expert's step (arXiv:2510.25992).",
    ),
)

PARTS: Final[tuple[Part, ...]] = (
    Part(make=weigh_parts, role="credit", method="M119", formula="{credit} with R = Σ w·r, w = {weights}"),
    Part(
        make=normalize_parts,
        role="credit",
        method="M119",
        formula="A = (Σ w·z − μ)/(σ + {eps}), z = (r − r̄)/(s + {eps}), w = {weights}, ddof {ddof}",
    ),
    Part(
        make=gate_step_rewards,
        role="credit",
        method="M120",
        formula="{credit} with rewards on the way 0 where R < {threshold}",
        facts=_TOKENS,
    ),
    Part(
        make=charge_tool_calls,
        role="credit",
        method="M124",
        formula="{credit} with R − min({cap}, {cost}·calls) where R ≥ {success_at}",
    ),
)
