"""Methods M48 to M71, and the surrogates, stages and critic's losses that carry them out."""

from typing import Final

from rollwright.algorithms.catalogue.entries import Fact, FactWhen, Method, Part
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.covariance import ClipCov, KlCov, select_between, select_largest
from rollwright.algorithms.surrogates.dual_clip import DualClip
from rollwright.algorithms.surrogates.earl_gate import EarlGate, select_uncertain
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.likelihood import log_likelihood, policy_gradient
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound, OuterClip
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds
from rollwright.algorithms.surrogates.soft_gate import SoftGate
from rollwright.algorithms.surrogates.value_losses import ClippedValueLoss, HuberValueLoss

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "surrogates"
_ROOM: Final = "rollwright.algorithms."
_MAI: Final = "MAI-Thinking-1"
_NO_RATIO: Final[frozenset[Fact]] = frozenset({"reads_no_ratio"})
_ONE_RATIO: Final[frozenset[Fact]] = frozenset({"takes_row_ratio"})
_ONE_ADVANTAGE: Final = (FactWhen(fact="row_advantage", argument="advantage", value="row"),)

METHODS: tuple[Method, ...] = (
    Method(
        id="M48",
        name="policy gradient with an importance weight",
        family=_FAMILY,
        formula="J = sg(u)·A·c, ∂J/∂c = u·A",
        source="Williams 1992; importance-weighted REINFORCE",
        where=(f"{_ROOM}surrogates.likelihood:policy_gradient", f"{_ROOM}corrections.truncated_ratio:TruncatedRatio"),
    ),
    Method(
        id="M49",
        name="PPO clip",
        family=_FAMILY,
        formula="J = min(ρA, clip(ρ, 1 − ε, 1 + ε)·A)",
        source="arXiv:1707.06347",
        where=(f"{_ROOM}surrogates.clipping:Clip",),
    ),
    Method(
        id="M50",
        name="clip-higher",
        family=_FAMILY,
        formula="J = min(ρA, clip(ρ, 1 − ε_l, 1 + ε_h)·A), ε_h > ε_l",
        source="DAPO, arXiv:2503.14476",
        where=(f"{_ROOM}surrogates.clipping:Clip",),
    ),
    Method(
        id="M51",
        name="dual clip",
        family=_FAMILY,
        formula="J = max(PPO, cA) where A < 0, else PPO",
        source="arXiv:1912.09729; c = 3 in verl",
        where=(f"{_ROOM}surrogates.dual_clip:DualClip",),
    ),
    Method(
        id="M52",
        name="CISPO",
        family=_FAMILY,
        formula="J = sg(clip(ρ, low, high))·A·c",
        source="MiniMax-M1, arXiv:2506.13585",
        where=(f"{_ROOM}surrogates.cispo:Cispo",),
        undisclosed={"high": "MiniMax-M1"},
        note="verl and slime write 1 ± ε, TRL the absolute upper bound without a lower one; here both are absolute: "
        "low = 0, or 1 − ε.",
    ),
    Method(
        id="M53",
        name="GSPO",
        family=_FAMILY,
        formula="J = min(s·A, clip(s, low, high)·A) a row, s the geometric mean of token ratios",
        source="arXiv:2507.18071",
        where=(f"{_ROOM}surrogates.sequence_clip:SequenceClip", f"{_ROOM}ratios.sequence_ratios:sequence_mean_ratio"),
        note="verl forces the response mean, TRL warns of others. AReaL averages advantages over the row: "
        'advantage = "mean_over_row". GSPO-token: Clip on sequence_token_ratio.',
    ),
    Method(
        id="M54",
        name="CTPO",
        family=_FAMILY,
        formula="PPO on ρ_{1:t} in [exp(−ℓ·t^p), exp(h·t^p)], dual bound exp(d·t^p), gradient of the own token",
        source="public CTPO code",
        where=(f"{_ROOM}surrogates.prefix_clip:PrefixClip", f"{_ROOM}ratios.prefix_ratios:prefix_ratio"),
        note="The code's scripts have ℓ = 0.025, h = 0.05, d = 0.05; its config class has 0.",
    ),
    Method(
        id="M55",
        name="SAPO, the soft gate",
        family=_FAMILY,
        formula="J = (4/τ)·σ(τ(ρ − 1))·A, τ by the sign of A",
        source="arXiv:2511.20347",
        where=(f"{_ROOM}surrogates.soft_gate:SoftGate",),
        note="The response mean in verl and TRL, the token mean in AReaL. Another SAPO shares rollouts in a swarm.",
    ),
    Method(
        id="M56",
        name="GPG loss",
        family=_FAMILY,
        formula="J = A·c",
        source="arXiv:2504.02546; verl",
        where=(f"{_ROOM}surrogates.likelihood:policy_gradient",),
    ),
    Method(
        id="M57",
        name="Clip-Cov",
        family=_FAMILY,
        formula="J = 0 at ⌊rN⌋ random tokens with lb < (A − Ā)(c − c̄) < ub, else PPO",
        source="arXiv:2505.22617",
        where=(f"{_ROOM}surrogates.covariance:ClipCov", f"{_ROOM}surrogates.covariance:clip_cov_stage"),
        note="verl draws anew in every micro-batch among tokens that are not clipped; here once an update, before any "
        "token can be.",
    ),
    Method(
        id="M58",
        name="KL-Cov",
        family=_FAMILY,
        formula="J = ρA − β·|c − o| at the ⌊rN⌋ tokens of largest (A − Ā)(c − c̄), else ρA",
        source="arXiv:2505.22617",
        where=(f"{_ROOM}surrogates.covariance:KlCov", f"{_ROOM}surrogates.covariance:kl_cov_stage"),
    ),
    Method(
        id="M59",
        name="TOPR",
        family=_FAMILY,
        formula="J = sg(w)·A·c, w = 1 where A ≥ 0, else clip(Πρ, 0, 1)",
        source="arXiv:2503.14286",
        where=(f"{_ROOM}surrogates.sequence_weights:Topr", f"{_ROOM}ratios.sequence_ratios:sequence_product_ratio"),
    ),
    Method(
        id="M60",
        name="AIPO",
        family=_FAMILY,
        formula="J = sg(min(c/b, C))·A·c",
        source="LlamaRL, arXiv:2505.24034",
        where=(f"{_ROOM}surrogates.cispo:Aipo",),
        undisclosed={"cap": "LlamaRL"},
    ),
    Method(
        id="M61",
        name="masked importance",
        family=_FAMILY,
        formula="J = sg(kρ·(A − τ·log ρ))·c, k = 1[lo ≤ ρ ≤ hi], ρ = c/b",
        source="INTELLECT-3; prime-rl of December 2025",
        where=(f"{_ROOM}surrogates.importance_mask:MaskedImportance",),
        note="That ρ = 6 is dropped at a bound of 5 is told; the lower bound 0.5 is our reading.",
    ),
    Method(
        id="M62",
        name="double-sided mask",
        family=_FAMILY,
        formula="J = ρA where 1 − ε_l < ρ < 1 + ε_h, else 0; ρ = c/b",
        source="SAO; GLM-5",
        where=(f"{_ROOM}surrogates.importance_mask:DoubleSidedMask",),
    ),
    Method(
        id="M63",
        name="DPPO-binary with a drift term",
        family=_FAMILY,
        formula="J = kρA − 1e-3·(c − b)², k = 0 where A > 0 and π − μ > 0.2, or A < 0 and π − μ < −0.2",
        source="prime-rl",
        where=(f"{_ROOM}surrogates.binary_drift:BinaryDrift", f"{_ROOM}surrogates.binary_drift:squared_drift"),
        note="prime-rl's documentation describes min(ρ, δ); its code has no such form, and neither has this.",
    ),
    Method(
        id="M64",
        name="entropy-adaptive upper bound with an outer clip",
        family=_FAMILY,
        formula="J = min(r·A, clip(r, 1 − ε, 1/(1 − ε) + k)·A), r = clip(ρ, r_min, r_max), k ← k + δ·sign(H* − H)",
        source="MAI-Thinking-1; how the two are composed is our reading",
        where=(f"{_ROOM}surrogates.outer_clip:OuterClip", f"{_ROOM}surrogates.outer_clip:AdaptiveUpperBound"),
        undisclosed=dict.fromkeys(("low", "high", "outer_low", "outer_high", "step", "largest"), _MAI),
    ),
    Method(
        id="M65",
        name="bounds by sign",
        family=_FAMILY,
        formula="J = ρA inside the band of the sign of A, else 0; ρ = c/b",
        source="MiMo-V2.6",
        where=(f"{_ROOM}surrogates.signed_bounds:SignedBounds", f"{_ROOM}surrogates.signed_bounds:count_sides"),
        note='Whether tokens outside are dropped or held at the bound is not told: outside = "mask" or "clip".',
    ),
    Method(
        id="M66",
        name="VESPO",
        family=_FAMILY,
        formula="J = sg(φ(W))·A·c, φ(W) = exp(λ + k·log W − λW), W = Πρ",
        source="public TRL code",
        where=(f"{_ROOM}surrogates.sequence_weights:Vespo", f"{_ROOM}ratios.sequence_ratios:sequence_product_ratio"),
    ),
    Method(
        id="M67",
        name="GMPO",
        family=_FAMILY,
        formula="J = A·exp(mean x), x = s·min(s·d, s·clip(d, −ε, ε)), s = sign A, d = log ρ",
        source="arXiv:2507.20673; verl",
        where=(f"{_ROOM}surrogates.geometric_clip:GeometricMeanClip",),
        note="verl averages over all rows, an empty one as 0; here rows without tokens are not counted.",
    ),
    Method(
        id="M68",
        name="MASPO",
        family=_FAMILY,
        formula="J = FρA, F = exp(−(ρ − 1)²/2σ²) where the token goes its own way, σ = σ_b·o^−α·(1 + βA)^±1",
        source="MASPO; public code",
        where=(f"{_ROOM}surrogates.mass_gate:MassAdaptiveGate",),
        undisclosed={"gate": "MASPO"},
    ),
    Method(
        id="M69",
        name="decoupled PPO",
        family=_FAMILY,
        formula="J = sg(o/b)·min(rA, clip(r, 1 − ε, 1 + ε)·A), r = c/o",
        source="AReaL, arXiv:2505.24298",
        where=(f"{_ROOM}surrogates.clipping:Clip", f"{_ROOM}ratios.token_ratios:staleness_ratio"),
        note="AReaL capped o/b at 5 until the option left its code; a cap here is TruncatedRatio.",
    ),
    Method(
        id="M70",
        name="mirror descent",
        family=_FAMILY,
        formula="J = −(A − τ·Σ(c − o))² a row",
        source="Kimi k1.5, arXiv:2501.12599",
        where=(f"{_ROOM}surrogates.mirror_descent:MirrorDescent",),
        undisclosed={"tau": "Kimi k1.5"},
    ),
    Method(
        id="M71",
        name="losses of a critic",
        family=_FAMILY,
        formula="½·max((V − T)², (clip(V, V_old ± ε) − T)²); Huber; cross-entropy of histograms",
        source="PPO code (verl, AReaL); SAO; HL-Gauss, arXiv:2403.03950",
        where=tuple(
            f"{_ROOM}surrogates.value_losses:{name}"
            for name in ("clipped_value_loss", "huber_value_loss", "hl_gauss_loss")
        ),
    ),
)

PARTS: tuple[Part, ...] = (
    Part(make=policy_gradient, role="surrogate", method="M48", formula="J = A·c", facts=_NO_RATIO),
    Part(make=log_likelihood, role="surrogate", method="M34", formula="J = c", facts=_NO_RATIO),
    Part(make=Clip, role="surrogate", method="M49", formula="J = min(ρA, clip(ρ, {low}, {high})·A)"),
    Part(
        make=DualClip,
        role="surrogate",
        method="M51",
        formula="J = min(ρA, clip(ρ, {low}, {high})·A), at least {dual}·A where A < 0",
    ),
    Part(make=Cispo, role="surrogate", method="M52", formula="J = sg(clip(ρ, {low}, {high}))·A·c"),
    Part(
        make=SequenceClip,
        role="surrogate",
        method="M53",
        formula="J = min(sA, clip(s, {low}, {high})·A), s one ratio a row",
        facts=_ONE_RATIO,
        facts_when=_ONE_ADVANTAGE,
    ),
    Part(
        make=PrefixClip,
        role="surrogate",
        method="M54",
        formula="J = min(ρA, clip(ρ, exp(−{low}·t^{power}), exp({high}·t^{power}))·A), dual exp({dual}·t^{power})",
        facts=frozenset({"takes_prefix_ratio"}),
    ),
    Part(
        make=SoftGate,
        role="surrogate",
        method="M55",
        formula="J = (4/τ)·σ(τ(ρ − 1))·A, τ = {tau_positive} where A > 0, else {tau_negative}",
    ),
    Part(
        make=ClipCov,
        role="surrogate",
        method="M57",
        formula="J = 0 where drawn, else min(ρA, clip(ρ, {low}, {high})·A)",
    ),
    Part(
        make=select_between,
        role="stage",
        method="M57",
        formula="drawn: ⌊{share}·N⌋ random tokens with {low} < (A − Ā)(o − ō) < {high}",
    ),
    Part(make=KlCov, role="surrogate", method="M58", formula="J = ρA − {coefficient}·|log ρ| where chosen, else ρA"),
    Part(
        make=select_largest,
        role="stage",
        method="M58",
        formula="chosen: the ⌊{share}·N⌋ tokens of largest (A − Ā)(o − ō)",
    ),
    Part(
        make=EarlGate,
        role="surrogate",
        method="",
        formula="J = {surrogate} at tokens of high entropy, else 0",
    ),
    Part(
        make=select_uncertain,
        role="stage",
        method="",
        formula="high entropy: the ⌊{share}·N⌋ tokens of largest H",
    ),
    Part(
        make=Topr,
        role="surrogate",
        method="M59",
        formula="J = sg(w)·A·c, w = 1 where A ≥ 0, else min(ρ, {cap})",
        facts=_ONE_RATIO,
    ),
    Part(make=Aipo, role="surrogate", method="M60", formula="J = sg(min(ρ, {cap}))·A·c"),
    Part(
        make=MaskedImportance,
        role="surrogate",
        method="M61",
        formula="J = sg(ρ·(A − {kl_tau}·log ρ))·c where {low} ≤ ρ ≤ {high}, else 0",
    ),
    Part(
        make=DoubleSidedMask,
        role="surrogate",
        method="M62",
        formula="J = ρA where 1 − {below} < ρ < 1 + {above}, else 0",
    ),
    Part(
        make=BinaryDrift,
        role="surrogate",
        method="M63",
        formula="J = ρA, but 0 where A > 0 and π − μ > {high}, or A < 0 and π − μ < −{low}",
        facts=frozenset({"corrects_staleness"}),
    ),
    Part(make=squared_drift, role="regularizer", method="M63", formula="(c − b)²"),
    Part(
        make=OuterClip,
        role="surrogate",
        method="M64",
        formula="J = min(rA, clip(r, {low}, {high})·A), r = clip(ρ, {outer_low}, {outer_high})",
    ),
    Part(
        make=AdaptiveUpperBound,
        role="controller",
        method="M64",
        formula="1/{low} + k, k ← clip(k + {step}·sign({target} − {metric}), 0, {largest})",
    ),
    Part(
        make=SignedBounds,
        role="surrogate",
        method="M65",
        formula="J = ρA in [{positive_low}, {positive_high}] for A > 0, [{negative_low}, {negative_high}] for A < 0; "
        "outside: {outside}",
    ),
    Part(
        make=Vespo,
        role="surrogate",
        method="M66",
        formula="J = sg(exp(λ + k·log ρ − λρ))·A·c, (k, λ) = ({power_positive}, {rate_positive}) where A ≥ 0, else "
        "({power_negative}, {rate_negative})",
        facts=_ONE_RATIO,
    ),
    Part(
        make=GeometricMeanClip,
        role="surrogate",
        method="M67",
        formula="J = A·exp(mean of log ρ, at most {log_clip} where A > 0, at least −{log_clip} where A < 0)",
        facts_when=_ONE_ADVANTAGE,
    ),
    Part(
        make=MassAdaptiveGate,
        role="surrogate",
        method="M68",
        formula="J = FρA, F = exp(−(ρ − 1)²/2σ²), σ = {sigma_base}·o^−{alpha}·(1 + {beta}·|A|)^±1, F is {gate}",
    ),
    Part(
        make=MirrorDescent,
        role="surrogate",
        method="M70",
        formula="J = −(A − {tau}·Σ(c − o))² a row",
        facts=_NO_RATIO,
        facts_when=_ONE_ADVANTAGE,
    ),
    Part(
        make=ClippedValueLoss,
        role="regularizer",
        method="M71",
        formula="½·max((V − T)², (clip(V, V_old ± {reach}) − T)²)",
    ),
    Part(make=HuberValueLoss, role="regularizer", method="M71", formula="Huber(V − T, δ = {delta})"),
)
