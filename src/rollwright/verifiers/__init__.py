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
from rollwright.verifiers.gym_verifier import GymVerifier, gym_pool, tagged_answer
from rollwright.verifiers.math_pool import MathLimits, MathPool
from rollwright.verifiers.mathematics import MathVerifier
from rollwright.verifiers.numbers import Number, NumberForm, agree, read_gold_number, read_number
from rollwright.verifiers.numeric import NumericRule, numeric_verifier
from rollwright.verifiers.reported import reported_verifier
from rollwright.verifiers.repository import REPOSITORY_PATCH, REPOSITORY_TREE, RepositoryVerifier, judged_files
from rollwright.verifiers.scorer_pool import ScorerLimits, ScorerPool, ScorerReply, ScorerStatus
from rollwright.verifiers.test_runs import RunEnding, TestRun, grade_run
from rollwright.verifiers.text_match import SQUAD, TextMatchRule, text_match_verifier, token_f1
from rollwright.verifiers.threads import ThreadedVerifier
from rollwright.verifiers.told import told_verifier

__all__ = [
    "REPOSITORY_PATCH",
    "REPOSITORY_TREE",
    "SQUAD",
    "AnswerRule",
    "Composition",
    "FunctionVerifier",
    "GoldError",
    "Grade",
    "GradeFn",
    "GradedText",
    "GymVerifier",
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
    "RepositoryVerifier",
    "Role",
    "RunEnding",
    "Score",
    "ScorerLimits",
    "ScorerPool",
    "ScorerReply",
    "ScorerStatus",
    "TestRun",
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
    "grade_run",
    "gym_pool",
    "judged_files",
    "left_state",
    "normalized",
    "numeric_verifier",
    "read_answer",
    "read_gold_number",
    "read_number",
    "reported_verifier",
    "return_verifier",
    "tagged_answer",
    "text_match_verifier",
    "token_f1",
    "told_verifier",
    "tool_use_verifier",
]
