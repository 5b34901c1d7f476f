"""Ratios of policies and corrections of staleness and engine mismatch (M35 to M44, M46, M47)."""

from typing import Final

from rollwright.algorithms.catalogue.entries import Fact, FactWhen, Method, Part
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.corrections.self_normalized import SelfNormalized
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, staleness_ratio, token_ratio

__all__ = ["METHODS", "PARTS"]

_HERE = "rollwright.algorithms"
_FAMILY = "corrections"

_RATIOS: Final = (
    Method(
        id="M35",
        name="Token ratio",
        family=_FAMILY,
        formula="ρ_t = exp(clamp(c_t − o_t, ±20))",
        source="arXiv:1707.06347",
        where=(f"{_HERE}.ratios.token_ratios:token_ratio", f"{_HERE}.ratios.token_ratios:bypass_ratio"),
        note="Trainers without a proximal pass divide by behavior: bypass_ratio.",
    ),
    Method(
        id="M36",
        name="Sequence ratio, full product",
        family=_FAMILY,
        formula="Π_t ρ_t = exp(clamp(Σ_m(c − o), ±20))",
        source="importance sampling of the whole row; clamp as in verl",
        where=(f"{_HERE}.ratios.sequence_ratios:sequence_product_ratio",),
    ),
    Method(
        id="M37",
        name="Length-normalised sequence ratio (GSPO)",
        family=_FAMILY,
        formula="s = exp(Σ_m(c − o)/n); token form sg(s)·exp(c_t − sg(c_t))",
        source="arXiv:2507.18071",
        where=(
            f"{_HERE}.ratios.sequence_ratios:sequence_mean_ratio",
            f"{_HERE}.ratios.sequence_ratios:sequence_token_ratio",
        ),
        note="verl takes the token form: sequence_token_ratio. Both agree for one advantage a row and even weights.",
    ),
    Method(
        id="M38",
        name="Prefix ratio (CTPO)",
        family=_FAMILY,
        formula="ρ_{1:t} = exp(Σ_{j≤t}(c_j − o_j)) in [exp(−ℓ·t^p), exp(h·t^p)], t counting action tokens",
        source="public code: CTPO",
        where=(
            f"{_HERE}.ratios.prefix_ratios:prefix_ratio",
            f"{_HERE}.ratios.prefix_ratios:prefix_mean_ratio",
            f"{_HERE}.ratios.prefix_ratios:prefix_band",
        ),
        note="The gradient is that of the token's own score, as released; p is 0.5 in the scripts, 0 in their config.",
    ),
)

_CORRECTIONS: Final = (
    Method(
        id="M39",
        name="Truncated importance sampling (TIS)",
        family=_FAMILY,
        formula="u = min(o/b, C), a token or its row's product",
        source="public code: verl (token, C = 2), TRL (sequence mask, 3)",
        where=(f"{_HERE}.corrections.truncated_ratio:TruncatedRatio",),
        note="TRL's default drops whole rows beyond 3: RowRejection(statistic='geometric_mean', …), or M41.",
    ),
    Method(
        id="M40",
        name="Masked importance sampling (MIS, IcePop)",
        family=_FAMILY,
        formula="u = ρ where lo ≤ ρ ≤ hi, else 0",
        source="INTELLECT-3 (hi 5; lo 0.5 is our reading), GLM-5 IcePop and Nemotron Cascade 2 ([0.5, 2])",
        where=(f"{_HERE}.corrections.masked_ratio:MaskedRatio", f"{_HERE}.ratios.token_ratios:staleness_ratio"),
    ),
    Method(
        id="M41",
        name="Composite mask",
        family=_FAMILY,
        formula="ρ ∈ [0.125, 8] ∧ row's geometric mean ∈ [0.1, 10] ∧ row's min ρ ≥ 0 ∧ row's max ρ ≤ 100",
        source="public code: prime-rl, December 2025",
        where=(f"{_HERE}.corrections.composite_mask:CompositeMask",),
    ),
    Method(
        id="M42",
        name="Row rejection by divergence",
        family=_FAMILY,
        formula="keep the row iff low ≤ statistic ≤ high: exp(mean log ρ), mean k2, mean k3, max k2, min ρ",
        source="public code: verl, slime",
        where=(f"{_HERE}.corrections.row_rejection:RowRejection",),
        note="verl's k1 bounds are on 1/ρ: give their reciprocals, low = 1/high and high = 1/low.",
    ),
    Method(
        id="M43",
        name="Off-policy sequence mask (OPSM)",
        family=_FAMILY,
        formula="drop where A < 0 and mean_m(b − c) > δ",
        source="DeepSeek-V3.2; public code: TRL, slime",
        where=(f"{_HERE}.corrections.off_policy_mask:OffPolicySequenceMask",),
        undisclosed={"delta": "DeepSeek-V3.2"},
        note="Trainers take the current policy anew in each update: of='current'. The default takes the proximal one.",
    ),
    Method(
        id="M44",
        name="Decoupled correction",
        family=_FAMILY,
        formula="u = exp(o − b), detached, beside r = exp(c − o), clipped",
        source="arXiv:2110.00641; AReaL (arXiv:2505.24298)",
        where=(f"{_HERE}.ratios.token_ratios:staleness_ratio",),
    ),
    Method(
        id="M46",
        name="Self-normalised weights, effective sample size",
        family=_FAMILY,
        formula="u ← u/mean_m(u) over the update; ESS = (Σu)²/Σu²",
        source="public code: verl",
        where=(
            f"{_HERE}.corrections.self_normalized:SelfNormalized",
            f"{_HERE}.diagnostics.updates:effective_sample_size",
        ),
        note="A mean of at most 1e-8 leaves the weights as they are.",
    ),
    Method(
        id="M47",
        name="Behavior support",
        family=_FAMILY,
        formula="b = z_y/T − log Σ_{v ∈ S} exp(z_v/T), S the candidates that were sampled among",
        source="replay of top-p: MAI, MiMo reports",
        where=(
            f"{_HERE}.corrections.behavior_support:support_logprobs",
            f"{_HERE}.corrections.behavior_support:candidate_set",
            f"{_HERE}.corrections.behavior_support:tempered_logprobs",
        ),
        note="The learner refuses batches from cut distributions as yet: rollwright.learner.causal_learner.",
    ),
)

METHODS: tuple[Method, ...] = (*_RATIOS, *_CORRECTIONS)

_COVERS = (FactWhen(fact="covers_staleness", argument="over", value="behavior"),)
_MOVES = (FactWhen(fact="corrects_update", argument="of", value="current"),)
_CORRECTS: frozenset[Fact] = frozenset({"corrects_staleness"})
_OF_ROWS: frozenset[Fact] = frozenset({"row_ratio"})

_RATIO_PARTS: Final = (
    Part(make=token_ratio, role="ratio", method="M35", formula="ρ_t = exp(c_t − o_t)"),
    Part(
        make=bypass_ratio,
        role="ratio",
        method="M35",
        formula="ρ_t = exp(c_t − b_t)",
        facts=frozenset({"covers_staleness"}),
    ),
    Part(make=no_ratio, role="ratio", method="", formula="1"),
    Part(
        make=sequence_product_ratio,
        role="ratio",
        method="M36",
        formula="Πρ = exp(Σ(c − {over}))",
        facts=_OF_ROWS,
        facts_when=_COVERS,
    ),
    Part(
        make=sequence_mean_ratio,
        role="ratio",
        method="M37",
        formula="s = exp(mean(c − {over}))",
        facts=_OF_ROWS,
        facts_when=_COVERS,
    ),
    Part(
        make=sequence_token_ratio,
        role="ratio",
        method="M37",
        formula="sg(s)·exp(c_t − sg(c_t)), s = exp(mean(c − {over}))",
        facts_when=_COVERS,
    ),
    Part(
        make=prefix_ratio,
        role="ratio",
        method="M38",
        formula="ρ_1:t = exp(Σ_{j≤t}(c_j − {over}_j))",
        facts_when=_COVERS,
    ),
    Part(
        make=prefix_mean_ratio,
        role="ratio",
        method="M38",
        formula="exp((1/t)·Σ_{j≤t}(c_j − {over}_j))",
        facts_when=_COVERS,
    ),
)

_KEEP_PARTS: Final = (
    Part(make=keep_all, role="keep", method="", formula="every action token"),
    Part(make=MaskedRatio, role="keep", method="M40", formula="{low} ≤ {of}/behavior ≤ {high}"),
    Part(
        make=CompositeMask,
        role="keep",
        method="M41",
        formula="ρ = {of}/behavior: ρ ∈ {token}, row's geometric mean ∈ {row_mean}, min ≥ {row_min}, max ≤ {row_max}",
    ),
    Part(
        make=RowRejection,
        role="keep",
        method="M42",
        formula="{low} ≤ {statistic} of {of}/behavior over the row ≤ {high}",
    ),
    Part(
        make=OffPolicySequenceMask,
        role="keep",
        method="M43",
        formula="A ≥ 0 or row's mean(behavior − {of}) ≤ {delta}",
    ),
)

_CORRECTION_PARTS: Final = (
    Part(make=no_correction, role="correction", method="", formula="1"),
    Part(make=staleness_ratio, role="correction", method="M44", formula="exp(o − b)", facts=_CORRECTS),
    Part(
        make=TruncatedRatio,
        role="correction",
        method="M39",
        formula="min({of}/behavior by {level}, {cap})",
        facts=_CORRECTS,
        facts_when=_MOVES,
    ),
    Part(make=SelfNormalized, role="correction", method="M46", formula="u/mean(u) by {over}, u = {correction}"),
    Part(make=SelfNormalized, role="stage", method="M46", formula="mean(u) by {over} over the update"),
)

PARTS: tuple[Part, ...] = (*_RATIO_PARTS, *_KEEP_PARTS, *_CORRECTION_PARTS)
