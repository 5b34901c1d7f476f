"""Finished trajectories to verdicts to reward. Knows no token, engine or environment."""

from rollwright.verifiers.answers import (
    AnswerRule,
    GradedText,
    Reading,
    Reasoning,
    after_reasoning,
    boxed,
    final_text,
    read_answer,
)
from rollwright.verifiers.composition import Composition, Part, Role, Score
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.exact import Normalization, NormalizationStep, exact_verifier, normalized
from rollwright.verifiers.final_state import LeftState, final_state_verifier, left_state
from rollwright.verifiers.form import format_verifier, tool_use_verifier
from rollwright.verifiers.goal_state import goal_state_verifier, return_verifier
from rollwright.verifiers.grading import FunctionVerifier, Grade, GradeFn
from rollwright.verifiers.math_pool import MathLimits, MathPool
from rollwright.verifiers.mathematics import MathVerifier
from rollwright.verifiers.numbers import Number, NumberForm, agree, read_gold_number, read_number
from rollwright.verifiers.numeric import NumericRule, numeric_verifier
from rollwright.verifiers.reported import reported_verifier
from rollwright.verifiers.text_match import SQUAD, TextMatchRule, text_match_verifier, token_f1
from rollwright.verifiers.threads import ThreadedVerifier

__all__ = [
    "SQUAD",
    "AnswerRule",
    "Composition",
    "FunctionVerifier",
    "GoldError",
    "Grade",
    "GradeFn",
    "GradedText",
    "LeftState",
    "MathLimits",
    "MathPool",
    "MathVerifier",
    "Normalization",
    "NormalizationStep",
    "Number",
    "NumberForm",
    "NumericRule",
    "Part",
    "Reading",
    "Reasoning",
    "Role",
    "Score",
    "TextMatchRule",
    "ThreadedVerifier",
    "VerifierSetupError",
    "after_reasoning",
    "agree",
    "boxed",
    "exact_verifier",
    "final_state_verifier",
    "final_text",
    "format_verifier",
    "goal_state_verifier",
    "left_state",
    "normalized",
    "numeric_verifier",
    "read_answer",
    "read_gold_number",
    "read_number",
    "reported_verifier",
    "return_verifier",
    "text_match_verifier",
    "token_f1",
    "tool_use_verifier",
]
