"""Trajectories to aligned, masked, weighted and packed tensors, and from what the learner did back to receipts."""

from rollwright.batches.credit_inputs import credit_inputs, source_number
from rollwright.batches.cut import cut
from rollwright.batches.drafting import lay_out
from rollwright.batches.errors import BatchError
from rollwright.batches.filling import Counted
from rollwright.batches.layout import (
    BatchRow,
    CreditFacts,
    MicroBatch,
    ReferenceScores,
    StepBatch,
    Support,
    SupportTensors,
    UpdateOutcome,
    UpdatePlan,
)
from rollwright.batches.masking import action_mask, sampled_mask, tool_mask, value_mask
from rollwright.batches.metrics import batch_metrics, observed_metrics, update_metrics
from rollwright.batches.planner import give_credit, plan_step, with_score
from rollwright.batches.receipts import eligible_rows, receipts_of
from rollwright.batches.rules import BatchRules, SegmentScores
from rollwright.batches.stored_scores import outcome_of_scores
from rollwright.batches.updates import components_of, minibatches, plan_updates

__all__ = [
    "BatchError",
    "BatchRow",
    "BatchRules",
    "Counted",
    "CreditFacts",
    "MicroBatch",
    "ReferenceScores",
    "SegmentScores",
    "StepBatch",
    "Support",
    "SupportTensors",
    "UpdateOutcome",
    "UpdatePlan",
    "action_mask",
    "batch_metrics",
    "components_of",
    "credit_inputs",
    "cut",
    "eligible_rows",
    "give_credit",
    "lay_out",
    "minibatches",
    "observed_metrics",
    "outcome_of_scores",
    "plan_step",
    "plan_updates",
    "receipts_of",
    "sampled_mask",
    "source_number",
    "tool_mask",
    "update_metrics",
    "value_mask",
    "with_score",
]
