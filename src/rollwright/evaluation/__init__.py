"""Frozen held-out protocols and what they measure."""

from rollwright.evaluation.counting import counted
from rollwright.evaluation.evaluate import Evaluation, EvaluationAttempt, evaluate
from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.evaluation.published_protocols import (
    PUBLISHED_PROTOCOLS,
    ProtocolScore,
    PublishedProtocol,
    score_protocol,
)

__all__ = [
    "PUBLISHED_PROTOCOLS",
    "Evaluation",
    "EvaluationAttempt",
    "EvaluationProtocol",
    "ProtocolScore",
    "PublishedProtocol",
    "counted",
    "evaluate",
    "score_protocol",
]
