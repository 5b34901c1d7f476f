"""Finished trajectories to verdicts to reward. Knows no token, engine or environment."""

from rollwright.verifiers.answers import (
    AnswerRule,
    GradedText,
    Reading,
    Reasoning,
    after_reasoning,
    final_text,
    read_answer,
)
from rollwright.verifiers.attack_diversity import AttackDiversityVerifier
from rollwright.verifiers.boxes import boxed
from rollwright.verifiers.canonical import canonical_answer
from rollwright.verifiers.choice import choice_verifier
from rollwright.verifiers.composition import Composition, Part, Role, Score
from rollwright.verifiers.end_state import end_state_verifier
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.exact import Normalization, NormalizationStep, exact_verifier, normalized
from rollwright.verifiers.external import (
    CallableChecker,
    Checker,
    CheckerVerifier,
    CheckReply,
    CheckRequest,
    CommandChecker,
)
from rollwright.verifiers.final_state import LeftState, final_state_verifier, left_state
from rollwright.verifiers.form import format_verifier, tool_use_verifier
from rollwright.verifiers.format_gates import TagRule, sections_verifier, tags_verifier
from rollwright.verifiers.function_calls import function_call_verifier
from rollwright.verifiers.goal_state import (
    goal_state_verifier,
    invalid_actions_verifier,
    return_verifier,
    won_verifier,
)
from rollwright.verifiers.grading import FunctionVerifier, Grade, GradeFn
from rollwright.verifiers.gym_verifier import GymVerifier, gym_pool, tagged_answer
from rollwright.verifiers.induction import rule_verifier
from rollwright.verifiers.injections import InjectionMeasure, injection_verifier
from rollwright.verifiers.json_schema import json_schema_verifier
from rollwright.verifiers.language import LANGUAGES, LanguageRule, language_share, language_verifier
from rollwright.verifiers.listed import SetRule, set_verifier
from rollwright.verifiers.math_pool import MathLimits, MathPool
from rollwright.verifiers.mathematics import MathVerifier
from rollwright.verifiers.numbers import Number, NumberForm, agree, read_gold_number, read_number
from rollwright.verifiers.numeric import NumericRule, numeric_verifier
from rollwright.verifiers.program_output import OutputRule, same_output
from rollwright.verifiers.program_tests import ProgramTests, read_program_tests
from rollwright.verifiers.quantities import Quantity, read_quantity
from rollwright.verifiers.reported import reported_verifier
from rollwright.verifiers.repository import (
    REPOSITORY_PATCH,
    REPOSITORY_PRELOADED,
    REPOSITORY_TREE,
    RepositoryVerifier,
    judged_files,
)
from rollwright.verifiers.reward_functions import RewardFunctionVerifier, reward_function_verifier
from rollwright.verifiers.rubric import RubricVerifier, rubric_pool
from rollwright.verifiers.scorer_pool import ScorerLimits, ScorerPool, ScorerReply, ScorerStatus
from rollwright.verifiers.sql import SqlLimits, sql_verifier
from rollwright.verifiers.subgoals import subgoal_verifier
from rollwright.verifiers.test_runs import RunEnding, TestRun, grade_run
from rollwright.verifiers.testbench import (
    DesignError,
    Interface,
    Port,
    Simulator,
    SimulatorError,
    TestbenchVerifier,
    stimuli,
)
from rollwright.verifiers.text_match import SQUAD, TextMatchRule, text_match_verifier, token_f1
from rollwright.verifiers.threads import ThreadedVerifier
from rollwright.verifiers.told import told_verifier
from rollwright.verifiers.tool_cost import CallCost, NetSuccess, net_success_by_slice, net_success_verifier
from rollwright.verifiers.training_desk import submitted_run_verifier
from rollwright.verifiers.unit_tests import UnitTestRule, UnitTestVerifier
from rollwright.verifiers.units import UnitsRule, units_verifier

__all__ = [
    "submitted_run_verifier",
    "invalid_actions_verifier",
    "won_verifier",
    "AttackDiversityVerifier",
    "InjectionMeasure",
    "injection_verifier",
    "LANGUAGES",
    "REPOSITORY_PATCH",
    "REPOSITORY_PRELOADED",
    "REPOSITORY_TREE",
    "SQUAD",
    "AnswerRule",
    "CallCost",
    "CallableChecker",
    "CheckReply",
    "CheckRequest",
    "Checker",
    "CheckerVerifier",
    "CommandChecker",
    "Composition",
    "DesignError",
    "FunctionVerifier",
    "GoldError",
    "Grade",
    "GradeFn",
    "GradedText",
    "GymVerifier",
    "Interface",
    "LanguageRule",
    "LeftState",
    "MathLimits",
    "MathPool",
    "MathVerifier",
    "NetSuccess",
    "Normalization",
    "NormalizationStep",
    "Number",
    "NumberForm",
    "NumericRule",
    "OutputRule",
    "Part",
    "Port",
    "ProgramTests",
    "Quantity",
    "Reading",
    "Reasoning",
    "RepositoryVerifier",
    "RewardFunctionVerifier",
    "Role",
    "RubricVerifier",
    "RunEnding",
    "Score",
    "ScorerLimits",
    "ScorerPool",
    "ScorerReply",
    "ScorerStatus",
    "SetRule",
    "Simulator",
    "SimulatorError",
    "SqlLimits",
    "TagRule",
    "TestRun",
    "TestbenchVerifier",
    "TextMatchRule",
    "ThreadedVerifier",
    "UnitTestRule",
    "UnitTestVerifier",
    "UnitsRule",
    "VerifierSetupError",
    "after_reasoning",
    "agree",
    "boxed",
    "canonical_answer",
    "choice_verifier",
    "end_state_verifier",
    "exact_verifier",
    "final_state_verifier",
    "final_text",
    "format_verifier",
    "function_call_verifier",
    "goal_state_verifier",
    "grade_run",
    "gym_pool",
    "json_schema_verifier",
    "judged_files",
    "language_share",
    "language_verifier",
    "left_state",
    "net_success_by_slice",
    "net_success_verifier",
    "normalized",
    "numeric_verifier",
    "read_answer",
    "read_gold_number",
    "read_number",
    "read_program_tests",
    "read_quantity",
    "reported_verifier",
    "return_verifier",
    "reward_function_verifier",
    "rubric_pool",
    "rule_verifier",
    "same_output",
    "sections_verifier",
    "set_verifier",
    "sql_verifier",
    "stimuli",
    "subgoal_verifier",
    "tagged_answer",
    "tags_verifier",
    "text_match_verifier",
    "token_f1",
    "told_verifier",
    "tool_use_verifier",
    "units_verifier",
]
