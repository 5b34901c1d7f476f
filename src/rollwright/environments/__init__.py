"""What an episode is: tools, turns and their limits. Knows no token, engine or verifier."""

from rollwright.environments.arithmetic import ARITHMETIC_INSTRUCTION, ArithmeticDemonstrator
from rollwright.environments.calculator import calculator, calculator_tool
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, DemonstratingEnvironment
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.schemas import FunctionSchema, schema_of
from rollwright.environments.tool_environment import (
    ACTOR,
    ArtifactFn,
    CallRecord,
    ToolEnvironment,
    ToolLimits,
    call_log,
    no_artifacts,
)
from rollwright.environments.tools import Tool, clean_text, cut_text, tool_of

__all__ = [
    "ACTOR",
    "ARITHMETIC_INSTRUCTION",
    "ArithmeticDemonstrator",
    "ArtifactFn",
    "CallRecord",
    "DemonstrateFn",
    "DemonstratedTurn",
    "DemonstratingEnvironment",
    "EnvironmentSetupError",
    "FunctionSchema",
    "Tool",
    "ToolEnvironment",
    "ToolError",
    "ToolLimits",
    "calculator",
    "calculator_tool",
    "call_log",
    "clean_text",
    "cut_text",
    "no_artifacts",
    "schema_of",
    "tool_of",
]
