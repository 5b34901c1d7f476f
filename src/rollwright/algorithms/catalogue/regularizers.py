"""Regularizers, length rewards and their controllers (M81 to M93)."""

from rollwright.algorithms.catalogue.entries import FactWhen, Method, Part
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.truncation import penalize_overlong
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.regularizers.effort import effort_budget, effort_length_penalty
from rollwright.algorithms.regularizers.entropy_bonus import entropy_bonus
from rollwright.algorithms.regularizers.group_length import group_length_reward
from rollwright.algorithms.regularizers.kl import kl_k1, kl_k2, kl_k3, kl_k3_plus
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.regularizers.pass_rate_penalty import linear_length_penalty, pass_rate_length_penalty
from rollwright.algorithms.regularizers.positive_nll import SuccessfulTokenMean, negative_log_likelihood
from rollwright.algorithms.regularizers.quantile_penalty import QuantileGate, gated_quantile_penalty

__all__ = ["METHODS", "PARTS"]

_HERE = "rollwright.algorithms"
_FAMILY = "regularizers"

_KL = (
    Method(
        id="M81",
        name="KL estimators k1, k2, k3",
        family=_FAMILY,
        formula="d = c − f: k1 = d, k2 = d²/2, k3 = e^(−d) − 1 + d; exact Σπ(log π − log f)",
        source="arXiv:2402.03300 for k3; public code: verl, TRL",
        where=(
            f"{_HERE}.regularizers.kl:kl_k1",
            f"{_HERE}.regularizers.kl:kl_k2",
            f"{_HERE}.regularizers.kl:kl_k3",
            f"{_HERE}.regularizers.kl:kl_k3_plus",
            f"{_HERE}.regularizers.full_vocabulary:exact_kl",
        ),
        note="As a loss k1 has a mean gradient of 0; verl has k3+ from August 2026 on: `kl_k3_plus`.",
    ),
    Method(
        id="M82",
        name="KL in the reward",
        family=_FAMILY,
        formula="r_t −= β(o_t − f_t), then credit",
        source="arXiv:2203.02155; public code: verl",
        where=(f"{_HERE}.credit.kl_in_reward:kl_in_reward",),
        note="verl sums the penalty into the row's reward before a group's statistics: place='row_rewards'.",
    ),
    Method(
        id="M83",
        name="IS-corrected KL",
        family=_FAMILY,
        formula="ρ·k3 a token, ρ = π/μ with its gradient",
        source="DeepSeek-V3.2; public code: TRL use_bias_correction_kl, slime",
        where=(f"{_HERE}.regularizers.corrected_kl:kl_k3_corrected",),
        note="TRL and slime take the proximal policy for μ: ratio=token_ratio.",
    ),
    Method(
        id="M84",
        name="Adaptive KL coefficient",
        family=_FAMILY,
        formula="β ← β(1 + clip(KL/target − 1, ±0.2)·n/horizon)",
        source="arXiv:1909.08593; public code: verl",
        where=(f"{_HERE}.regularizers.adaptive_kl:AdaptiveKl",),
        note="At a KL of 0 or below verl takes the lower clip; here nothing changes, nor at one that is not finite.",
    ),
    Method(
        id="M93",
        name="Reference (and optimizer) reset",
        family=_FAMILY,
        formula="f ← θ, moments ← 0; softly f ← 0.6θ + 0.4f every 512 updates",
        source="ProRL: arXiv:2505.24864; public code: TRL",
        where=(
            f"{_HERE}.regularizers.reference_reset:mix_reference",
            f"{_HERE}.regularizers.reference_reset:cleared_moments",
            f"{_HERE}.regularizers.reference_reset:ReferenceSync",
        ),
        note="A stage of a run begins with a fresh optimizer and the weights of its start as reference.",
    ),
)

_ENTROPY = (
    Method(
        id="M85",
        name="Entropy bonus",
        family=_FAMILY,
        formula="L −= α·mean H, H = −Σπ log π",
        source="public code: TRL, verl",
        where=(
            f"{_HERE}.regularizers.entropy_bonus:entropy_bonus",
            f"{_HERE}.regularizers.full_vocabulary:entropy_of_logits",
        ),
        note="Always a token mean, as in TRL, whatever the policy term is divided by.",
    ),
    Method(
        id="M86",
        name="MAGIC adaptive entropy",
        family=_FAMILY,
        formula="c ± Δ if H < H* or H > H*; α = c·1{H ≤ H*}",
        source="arXiv:2505.22312",
        where=(f"{_HERE}.regularizers.magic_entropy:MagicEntropy",),
        note="The report has no floor: floor=None; its script has step 1e-4 and cap 0.005; TRL cap=1, tie='raise'.",
    ),
    Method(
        id="M92",
        name="Positive-example NLL",
        family=_FAMILY,
        formula="L += μ·Σ⁺(−c)/N⁺ over tokens of successful rows",
        source="VAPO: arXiv:2504.05118",
        where=(
            f"{_HERE}.regularizers.positive_nll:positive_nll",
            f"{_HERE}.regularizers.positive_nll:SuccessfulTokenMean",
        ),
        note="Seed1.5-Thinking has the term too and does not give its μ.",
    ),
)

_LENGTH = (
    Method(
        id="M87",
        name="Soft overlong penalty",
        family=_FAMILY,
        formula="0 to L − C, (L − C − n)/C to L, −1 beyond",
        source="DAPO: arXiv:2503.14476",
        where=(f"{_HERE}.credit.truncation:penalize_overlong", f"{_HERE}.credit.truncation:overlong_penalty"),
        note="verl and AReaL let the ramp fall on beyond L: beyond='falling'.",
    ),
    Method(
        id="M88",
        name="Group-relative length control",
        family=_FAMILY,
        formula="R += λ_t·w̃_t + λ_a·w̃_a, w = 1 − (ℓ − ℓ_min)/(ℓ_max − ℓ_min), w̃ = w − mean w",
        source="Nemotron 3 Nano",
        where=(f"{_HERE}.regularizers.group_length:group_length_reward",),
    ),
    Method(
        id="M89",
        name="Gated quantile penalty",
        family=_FAMILY,
        formula="passing rows of groups above A_min: R −= X·clip((ℓ/ℓ* − 1 − δ)/(s − δ), 0, 1)^γ",
        source="MiMo-V2.6",
        where=(f"{_HERE}.regularizers.quantile_penalty:gated_quantile_penalty",),
        undisclosed=dict.fromkeys(
            ("penalty", "slack", "saturation", "power", "percentile", "min_pass_rate"), "the report on MiMo-V2.6"
        ),
    ),
    Method(
        id="M90",
        name="Pass-rate scaled length penalty",
        family=_FAMILY,
        formula="R −= w·ρ·n/ℓ_max; linear: R −= R̄·Σ_k w_k·x_k/max x_k",
        source="MAI-Thinking-1; public code: prime-rl",
        where=(
            f"{_HERE}.regularizers.pass_rate_penalty:pass_rate_length_penalty",
            f"{_HERE}.regularizers.pass_rate_penalty:linear_length_penalty",
        ),
        undisclosed={"rule": "Nanbeige 4.2: a budget from short traces that were right, in turns with free phases"},
    ),
    Method(
        id="M91",
        name="Effort and budget controller",
        family=_FAMILY,
        formula="R = −1 if used > τ·b₀(x); or R −= scale·(100 − effort)/99·n/ℓ_max",
        source="Kimi K3; DeepSeek V4.1",
        where=(f"{_HERE}.regularizers.effort:effort_budget", f"{_HERE}.regularizers.effort:effort_length_penalty"),
        undisclosed={"multiplier": "the report on Kimi K3", "scale": "the report on DeepSeek V4.1"},
        note="That the pressure falls along a line in the effort is a choice of this library.",
    ),
)

METHODS: tuple[Method, ...] = (*_KL, *_ENTROPY, *_LENGTH)

_TERMS = (
    Part(
        make=kl_k1,
        role="regularizer",
        method="M81",
        formula="k1 = c − f",
        facts=frozenset({"kl_in_loss"}),
    ),
    Part(
        make=kl_k2,
        role="regularizer",
        method="M81",
        formula="k2 = (c − f)²/2",
        facts=frozenset({"kl_in_loss"}),
    ),
    Part(
        make=kl_k3,
        role="regularizer",
        method="M81",
        formula="k3 = e^(f − c) − 1 + (c − f)",
        facts=frozenset({"kl_in_loss"}),
    ),
    Part(
        make=kl_k3_plus,
        role="regularizer",
        method="M81",
        formula="k3 with the gradient of k2",
        facts=frozenset({"kl_in_loss"}),
    ),
    Part(
        make=kl_k3_corrected,
        role="regularizer",
        method="M83",
        formula="ρ·k3",
        facts=frozenset({"kl_in_loss"}),
    ),
    Part(make=entropy_bonus, role="regularizer", method="M85", formula="−H"),
    Part(make=negative_log_likelihood, role="regularizer", method="M92", formula="−c"),
    Part(
        make=SuccessfulTokenMean,
        role="weights",
        method="M92",
        formula="1/N⁺ on tokens of rows with R ≥ {threshold}",
    ),
)

_CONTROLLERS = (
    Part(
        make=AdaptiveKl,
        role="controller",
        method="M84",
        formula="β from {initial}: β·(1 + clip(KL/{target} − 1, ±{bound})·{num_rows}/{horizon})",
    ),
    Part(
        make=MagicEntropy,
        role="controller",
        method="M86",
        formula="c ± {step} towards H = {target}, within [{floor}, {cap}]; c where H ≤ {target}, else 0",
    ),
    Part(
        make=LinearAnneal,
        role="controller",
        method="M91",
        formula="from {start} to {end} over {over} updates",
    ),
)

_STAGES = (
    Part(
        make=kl_in_reward,
        role="credit",
        method="M82",
        formula="{credit} of r_t − {coefficient}·(o_t − f_t)",
        facts=frozenset({"kl_in_reward"}),
        facts_when=tuple(
            FactWhen(fact="token_credit", argument="place", value=place) for place in ("step_rewards", "advantages")
        ),
    ),
    Part(
        make=penalize_overlong,
        role="credit",
        method="M87",
        formula="{credit} of R − {factor}·clip((n − {max_tokens} + {buffer_tokens})/{buffer_tokens}, 0, 1)",
    ),
    Part(
        make=group_length_reward,
        role="credit",
        method="M88",
        formula="{credit} of R + {thinking}·w̃_think + {answer}·w̃_answer + {bonus} for the shortest of the best",
    ),
    Part(
        make=gated_quantile_penalty,
        role="credit",
        method="M89",
        formula="{credit} of R − X·clip((ℓ/ℓ* − 1 − δ)/(s − δ), 0, 1)^γ in passing rows, {gate}",
    ),
    Part(
        make=QuantileGate,
        role="credit",
        method="M89",
        formula="X = {penalty}, δ = {slack}, s = {saturation}, γ = {power}, B = {percentile}, A_min = {min_pass_rate}",
    ),
    Part(
        make=pass_rate_length_penalty,
        role="credit",
        method="M90",
        formula="{credit} of R − {weight}·ρ·n/{max_tokens}",
    ),
    Part(
        make=linear_length_penalty,
        role="credit",
        method="M90",
        formula="{credit} of R − R̄·({output_weight}·n/max n + {input_weight}·in/max in + {turns_weight}·k/max k)",
    ),
    Part(
        make=effort_budget,
        role="credit",
        method="M91",
        formula="{credit} of R, or {reward} where used > {multiplier}·b₀",
    ),
    Part(
        make=effort_length_penalty,
        role="credit",
        method="M91",
        formula="{credit} of R − {scale}·(100 − effort)/99·n/{max_tokens}",
    ),
)

PARTS: tuple[Part, ...] = (*_TERMS, *_CONTROLLERS, *_STAGES)
