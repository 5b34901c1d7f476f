"""Frozen held-out protocols and what they measure."""

from rollwright.evaluation.evaluate import Evaluation, EvaluationAttempt, evaluate
from rollwright.evaluation.protocol import EvaluationProtocol

__all__ = ["Evaluation", "EvaluationAttempt", "EvaluationProtocol", "evaluate"]
