"""What an episode is: tools, turns and their limits. Knows no token, engine or verifier."""

from rollwright.environments.arithmetic import ARITHMETIC_INSTRUCTION, ArithmeticDemonstrator
from rollwright.environments.calculator import calculator, calculator_tool
from rollwright.environments.code_blocks import CodeBlocks
from rollwright.environments.database import Database
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, DemonstratingEnvironment
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.game_agents import GamePlanner, WalkDemonstrator, game_attacks, seen_in_games
from rollwright.environments.house import HouseGame
from rollwright.environments.interpreter import (
    INTERPRETER_INSTRUCTION,
    CodeForm,
    InterpreterDemonstrator,
    code_turn,
    interpreter_environment,
)
from rollwright.environments.passages import PassageIndex, open_index, passages_text, search_tool
from rollwright.environments.sandbox_tools import SandboxTool, SandboxToolFn, ToolAnswer, sandbox_tool
from rollwright.environments.sandboxed import CollectFn, Furnishing, LayFn, SandboxEnvironment
from rollwright.environments.schemas import FunctionSchema, schema_of
from rollwright.environments.stateful import EpisodeState, Scenario, StatefulEnvironment, StatefulEpisode
from rollwright.environments.tag_search import TAG_INSTRUCTION, SearchLimits, TagSearchEnvironment
from rollwright.environments.text_games import (
    FINAL_STATE,
    LOOK,
    NOTHING_HAPPENS,
    End,
    GameRules,
    TextGame,
    TextGameEnvironment,
)
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
from rollwright.environments.workplace import (
    WORKPLACE_RULES,
    WorkplaceDemonstrator,
    WorkplaceScenario,
    WorkplaceState,
    planned_calls,
)

__all__ = [
    "ACTOR",
    "ARITHMETIC_INSTRUCTION",
    "FINAL_STATE",
    "INTERPRETER_INSTRUCTION",
    "LOOK",
    "NOTHING_HAPPENS",
    "TAG_INSTRUCTION",
    "WORKPLACE_RULES",
    "ArithmeticDemonstrator",
    "ArtifactFn",
    "CallRecord",
    "CodeBlocks",
    "CodeForm",
    "CollectFn",
    "Database",
    "DemonstrateFn",
    "DemonstratedTurn",
    "DemonstratingEnvironment",
    "End",
    "EnvironmentSetupError",
    "EpisodeState",
    "FunctionSchema",
    "Furnishing",
    "GamePlanner",
    "GameRules",
    "HouseGame",
    "InterpreterDemonstrator",
    "LayFn",
    "PassageIndex",
    "SandboxEnvironment",
    "SandboxTool",
    "SandboxToolFn",
    "Scenario",
    "SearchLimits",
    "StatefulEnvironment",
    "StatefulEpisode",
    "TagSearchEnvironment",
    "TextGame",
    "TextGameEnvironment",
    "Tool",
    "ToolAnswer",
    "ToolEnvironment",
    "ToolError",
    "ToolLimits",
    "WalkDemonstrator",
    "WorkplaceDemonstrator",
    "WorkplaceScenario",
    "WorkplaceState",
    "calculator",
    "calculator_tool",
    "call_log",
    "clean_text",
    "code_turn",
    "cut_text",
    "game_attacks",
    "interpreter_environment",
    "no_artifacts",
    "open_index",
    "passages_text",
    "planned_calls",
    "sandbox_tool",
    "schema_of",
    "search_tool",
    "seen_in_games",
    "tool_of",
]
