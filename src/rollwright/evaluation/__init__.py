"""Frozen held-out protocols and what they measure."""

from rollwright.evaluation.counting import counted
from rollwright.evaluation.errors import EvaluationError
from rollwright.evaluation.evaluate import Evaluation, EvaluationAttempt, Harness, evaluate
from rollwright.evaluation.outcomes import Baseline, outcomes_of
from rollwright.evaluation.protocol import EvaluationProtocol, ProtocolDifference, protocol_differences
from rollwright.evaluation.published_protocols import (
    PUBLISHED_PROTOCOLS,
    ProtocolScore,
    PublishedProtocol,
    score_protocol,
)

__all__ = [
    "PUBLISHED_PROTOCOLS",
    "Baseline",
    "Evaluation",
    "EvaluationAttempt",
    "EvaluationError",
    "EvaluationProtocol",
    "Harness",
    "ProtocolDifference",
    "ProtocolScore",
    "PublishedProtocol",
    "counted",
    "evaluate",
    "outcomes_of",
    "protocol_differences",
    "score_protocol",
]
