"""Pure mathematics on tensors: credit, ratios, surrogates, denominators, regularizers. Imports nothing of ours."""

from rollwright.algorithms.composition import LossTerms, kept_tokens, loss_terms
from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import GroupStatistics, group_statistics
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.supervised import imitate
from rollwright.algorithms.credit.truncation import (
    exclude_truncated,
    mask_truncated,
    overlong_penalty,
    penalize_overlong,
    punish_truncated,
)
from rollwright.algorithms.denominators.plain import (
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
    row_lengths,
)
from rollwright.algorithms.diagnostics.updates import (
    Diagnostic,
    effective_sample_size,
    group_diagnostics,
    lag_diagnostics,
    masked_mean,
    update_diagnostics,
)
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import CleanStreams, clean_streams
from rollwright.algorithms.objective import (
    Controller,
    CorrectionFn,
    Counting,
    Credit,
    CreditFn,
    CreditInputs,
    Keep,
    KeepFn,
    Objective,
    RatioFn,
    Regularizer,
    RowLengths,
    Surrogate,
    SurrogateFn,
    TokenStreams,
    WeightFn,
)
from rollwright.algorithms.presets import (
    bypassing_proximal,
    clipped,
    dapo,
    dr_grpo,
    grpo,
    reinforce,
    rloo,
    score_function,
    supervised,
    with_regularizer,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, staleness_ratio, token_ratio
from rollwright.algorithms.regularizers.kl import kl_k1, kl_k2, kl_k3, kl_k3_plus
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.likelihood import log_likelihood, policy_gradient
from rollwright.algorithms.validation import check_objective

__all__ = [
    "Clip",
    "CleanStreams",
    "Controller",
    "CorrectionFn",
    "Counting",
    "Credit",
    "CreditFn",
    "CreditInputs",
    "Diagnostic",
    "FixedLength",
    "GroupStatistics",
    "Keep",
    "KeepFn",
    "LossTerms",
    "Objective",
    "ObjectiveError",
    "PromptMean",
    "RatioFn",
    "Regularizer",
    "ResponseMean",
    "RowLengths",
    "SequenceSum",
    "Surrogate",
    "SurrogateFn",
    "TokenMean",
    "TokenStreams",
    "WeightFn",
    "bypass_ratio",
    "bypassing_proximal",
    "center_within_group",
    "check_objective",
    "clean_streams",
    "clipped",
    "dapo",
    "dr_grpo",
    "effective_sample_size",
    "exclude_truncated",
    "group_diagnostics",
    "group_statistics",
    "grpo",
    "imitate",
    "keep_all",
    "kept_tokens",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "kl_k3_plus",
    "lag_diagnostics",
    "leave_one_out",
    "log_likelihood",
    "loss_terms",
    "mask_truncated",
    "masked_mean",
    "no_correction",
    "no_ratio",
    "overlong_penalty",
    "penalize_overlong",
    "policy_gradient",
    "punish_truncated",
    "reinforce",
    "return_to_go",
    "rloo",
    "row_lengths",
    "score_function",
    "staleness_ratio",
    "standardize_within_group",
    "supervised",
    "token_ratio",
    "update_diagnostics",
    "with_regularizer",
]
