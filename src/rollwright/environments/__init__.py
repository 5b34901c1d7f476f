"""What an episode is: tools, turns and their limits. Knows no token, engine or verifier."""

from rollwright.environments.arithmetic import ARITHMETIC_INSTRUCTION, ArithmeticDemonstrator
from rollwright.environments.attack_strategies import (
    AttackAttempt,
    LibraryAttacker,
    RandomAttacker,
    StrategyLibrary,
    attack_core,
    attack_works,
    mine_strategies,
    read_library,
)
from rollwright.environments.calculator import calculator, calculator_tool
from rollwright.environments.call_rules import ACTOR, CallRecord, ToolLimits
from rollwright.environments.clinic import ClinicScenario
from rollwright.environments.closed_forms import BanditGame, ChainGame, bandit_gradient, chain_gradient
from rollwright.environments.code_blocks import CodeBlocks
from rollwright.environments.database import Database
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, DemonstratingEnvironment
from rollwright.environments.dialogue import DIALOGUE_RULES, DialogueDemonstrator, DialogueScenario
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.game_agents import GamePlanner, WalkDemonstrator, game_attacks, seen_in_games
from rollwright.environments.git_folder import git_folder
from rollwright.environments.grid import GridGame
from rollwright.environments.house import HouseGame
from rollwright.environments.injection_targets import DEFENSES, INJECTION_TARGETS, InjectionTarget, injection_target
from rollwright.environments.injections import AgentInjections, AttackerInjections
from rollwright.environments.interpreter import (
    INTERPRETER_INSTRUCTION,
    CodeForm,
    InterpreterDemonstrator,
    code_turn,
    interpreter_environment,
)
from rollwright.environments.invariants import VIOLATIONS, GuardedEnvironment, Invariant, Moment
from rollwright.environments.limits import LimitedEnvironment
from rollwright.environments.lockstep import LOCKSTEP, LockstepEnvironment, Seat, scripted_seat
from rollwright.environments.mcp_environment import McpEnvironment, McpSettings
from rollwright.environments.mcp_tools import McpConnections, McpServer, McpTool
from rollwright.environments.network import NetworkGame, defended
from rollwright.environments.passages import PassageIndex, open_index, passages_text, search_tool
from rollwright.environments.repair import RepairGame
from rollwright.environments.replayed_tools import (
    RecordedAnswer,
    Recorder,
    read_answers,
    replayed_tool,
    write_answers,
)
from rollwright.environments.repository import (
    REPOSITORY_INSTRUCTION,
    REPOSITORY_TREE,
    called,
    collect_tree,
    lay_repository,
    repair_turns,
    repository_environment,
)
from rollwright.environments.reset_step import MakeGameFn, ResetStepEnvironment, ResetStepGame, ResetStepRules
from rollwright.environments.sandbox_tools import SandboxTool, SandboxToolFn, ToolAnswer, sandbox_tool
from rollwright.environments.sandboxed import CollectFn, Furnishing, LayFn, SandboxEnvironment
from rollwright.environments.schemas import FunctionSchema, schema_of
from rollwright.environments.scripted_user import DialogueUser, ScriptedUser
from rollwright.environments.stateful import EpisodeState, Scenario, StatefulEnvironment, StatefulEpisode
from rollwright.environments.tag_search import TAG_INSTRUCTION, SearchLimits, TagSearchEnvironment
from rollwright.environments.terminal import job_turns, lay_files, terminal_environment
from rollwright.environments.text_games import (
    FINAL_STATE,
    LOOK,
    NOTHING_HAPPENS,
    End,
    GameRules,
    TextGame,
    TextGameEnvironment,
)
from rollwright.environments.tool_environment import ArtifactFn, ToolEnvironment, call_log, no_artifacts
from rollwright.environments.tools import Tool, clean_text, cut_text, tool_of
from rollwright.environments.training_desk import TrainingDesk
from rollwright.environments.web_site import WebSiteGame
from rollwright.environments.workplace import (
    WORKPLACE_RULES,
    WorkplaceDemonstrator,
    WorkplaceScenario,
    WorkplaceState,
    planned_calls,
)

__all__ = [
    "TrainingDesk",
    "LOCKSTEP",
    "LockstepEnvironment",
    "Seat",
    "scripted_seat",
    "ClinicScenario",
    "DEFENSES",
    "INJECTION_TARGETS",
    "AgentInjections",
    "AttackAttempt",
    "AttackerInjections",
    "InjectionTarget",
    "LibraryAttacker",
    "RandomAttacker",
    "StrategyLibrary",
    "attack_core",
    "attack_works",
    "injection_target",
    "mine_strategies",
    "read_library",
    "ACTOR",
    "ARITHMETIC_INSTRUCTION",
    "DIALOGUE_RULES",
    "FINAL_STATE",
    "INTERPRETER_INSTRUCTION",
    "LOOK",
    "NOTHING_HAPPENS",
    "REPOSITORY_INSTRUCTION",
    "REPOSITORY_TREE",
    "TAG_INSTRUCTION",
    "WORKPLACE_RULES",
    "ArithmeticDemonstrator",
    "ArtifactFn",
    "BanditGame",
    "CallRecord",
    "ChainGame",
    "CodeBlocks",
    "CodeForm",
    "CollectFn",
    "Database",
    "DemonstrateFn",
    "DemonstratedTurn",
    "DemonstratingEnvironment",
    "DialogueDemonstrator",
    "DialogueScenario",
    "DialogueUser",
    "End",
    "EnvironmentSetupError",
    "EpisodeState",
    "FunctionSchema",
    "Furnishing",
    "GamePlanner",
    "GameRules",
    "GridGame",
    "HouseGame",
    "InterpreterDemonstrator",
    "LayFn",
    "GuardedEnvironment",
    "Invariant",
    "LimitedEnvironment",
    "Moment",
    "RecordedAnswer",
    "Recorder",
    "VIOLATIONS",
    "read_answers",
    "replayed_tool",
    "write_answers",
    "MakeGameFn",
    "NetworkGame",
    "McpConnections",
    "McpEnvironment",
    "McpServer",
    "McpSettings",
    "McpTool",
    "PassageIndex",
    "RepairGame",
    "ResetStepEnvironment",
    "ResetStepGame",
    "ResetStepRules",
    "SandboxEnvironment",
    "SandboxTool",
    "SandboxToolFn",
    "Scenario",
    "ScriptedUser",
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
    "WebSiteGame",
    "WorkplaceDemonstrator",
    "WorkplaceScenario",
    "WorkplaceState",
    "bandit_gradient",
    "calculator",
    "calculator_tool",
    "call_log",
    "called",
    "chain_gradient",
    "clean_text",
    "code_turn",
    "collect_tree",
    "cut_text",
    "defended",
    "game_attacks",
    "git_folder",
    "interpreter_environment",
    "job_turns",
    "lay_files",
    "lay_repository",
    "no_artifacts",
    "open_index",
    "passages_text",
    "planned_calls",
    "repair_turns",
    "repository_environment",
    "sandbox_tool",
    "schema_of",
    "search_tool",
    "seen_in_games",
    "terminal_environment",
    "tool_of",
]
