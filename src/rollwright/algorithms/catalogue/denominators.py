"""Denominators: what a token weighs in the loss (M72 to M80)."""

from rollwright.algorithms.catalogue.entries import Method, Part
from rollwright.algorithms.denominators.plain import (
    EpisodeMean,
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
)
from rollwright.algorithms.denominators.source_balance import SourceBalance

__all__ = ["METHODS", "PARTS"]

_HERE = "rollwright.algorithms"
_FAMILY = "denominators"

METHODS: tuple[Method, ...] = (
    Method(
        id="M72",
        name="Response mean",
        family=_FAMILY,
        formula="w = 1/(B·n_i), B rows with tokens",
        source="arXiv:2402.03300 (GRPO)",
        where=(f"{_HERE}.denominators.plain:ResponseMean", f"{_HERE}.denominators.plain:EpisodeMean"),
        note="EpisodeMean counts conversations instead of rows: 1/(E·N_e).",
    ),
    Method(
        id="M73",
        name="Token mean over the update",
        family=_FAMILY,
        formula="w = 1/N",
        source="arXiv:2503.14476 (DAPO)",
        where=(f"{_HERE}.denominators.plain:TokenMean",),
        note="TRL's bnpo divides by the tokens of each micro-batch, so that the cut changes the loss: not offered.",
    ),
    Method(
        id="M74",
        name="Fixed length",
        family=_FAMILY,
        formula="w = 1/(B·L)",
        source="arXiv:2503.20783 (Dr.GRPO)",
        where=(f"{_HERE}.denominators.plain:FixedLength",),
        note="TRL's dr_grpo counts rows without tokens too; verl divided by L alone until August 2026.",
    ),
    Method(
        id="M75",
        name="Sequence sum, row mean",
        family=_FAMILY,
        formula="w = 1/B",
        source="arXiv:2402.14740 (REINFORCE, RLOO); public code: verl seq-mean-token-sum",
        where=(f"{_HERE}.denominators.plain:SequenceSum",),
    ),
    Method(
        id="M76",
        name="Prompt mean",
        family=_FAMILY,
        formula="w = 1/(P·G_g·n_i), or 1/(P·N_g) within tokens",
        source="MiMo-V2.6, as read by two digests",
        where=(f"{_HERE}.denominators.plain:PromptMean",),
        note="A mean of responses or of tokens within a prompt: within='response' or 'token'.",
    ),
    Method(
        id="M77",
        name="Balance of sources at the objective",
        family=_FAMILY,
        formula="w ← w·target_s/Σ_{i ∈ s} w",
        source="agentic RL survey, level 6",
        where=(f"{_HERE}.denominators.source_balance:SourceBalance",),
    ),
    Method(
        id="M78",
        name="Normalisation by component",
        family=_FAMILY,
        formula="L = Σ_c (Σ L_c)/N_c, N_c over the update",
        source="public code: prime-rl",
        where=(f"{_HERE}.objective:Regularizer", f"{_HERE}.composition:loss_terms"),
    ),
    Method(
        id="M79",
        name="Exactness under any cut",
        family=_FAMILY,
        formula="Σ over micro-batches and ranks of w·L = the loss of the update",
        source="derived; tests of this project",
        where=("rollwright.batches.updates:plan_updates", "rollwright.learner.ranks:sum_gradients"),
    ),
    Method(
        id="M80",
        name="Denominator under masking",
        family=_FAMILY,
        formula="structural: tokens cut by a correction stay in N; kept: they leave it",
        source="public code: AReaL, SAO, INTELLECT-3 (structural), verl rejection sampling (kept)",
        where=(f"{_HERE}.denominators.plain:row_lengths", f"{_HERE}.composition:kept_tokens"),
        note="counting='kept' is verl's: a batch that is mostly rejected is then a full step on few tokens.",
    ),
)

PARTS: tuple[Part, ...] = (
    Part(make=ResponseMean, role="weights", method="M72", formula="1/(B·n_i), {counting} tokens"),
    Part(make=EpisodeMean, role="weights", method="M72", formula="1/(E·N_e), {counting} tokens"),
    Part(make=TokenMean, role="weights", method="M73", formula="1/N, {counting} tokens"),
    Part(make=FixedLength, role="weights", method="M74", formula="1/(B·{length}), {counting} tokens"),
    Part(make=SequenceSum, role="weights", method="M75", formula="1/B, {counting} tokens"),
    Part(make=PromptMean, role="weights", method="M76", formula="1/P, by {within} within, {counting} tokens"),
    Part(make=SourceBalance, role="weights", method="M77", formula="{base}·target/mass of the source, {targets}"),
)
