"""Environments that were written for other packages, played under our driver. Each names what it cannot carry."""

from rollwright.environments.adapters.agent_bench import AgentBench, AgentTurn, BenchSession, BenchTask, SampleRewardFn
from rollwright.environments.adapters.app_world import AppWorldApi, AppWorldGames
from rollwright.environments.adapters.game import (
    OUTCOME,
    AdaptedEnvironment,
    Departure,
    Game,
    GameLimits,
    Move,
    StartFn,
)
from rollwright.environments.adapters.http_session import ServerAddress
from rollwright.environments.adapters.nemo_gym import NemoGym, nemo_gym_messages
from rollwright.environments.adapters.open_env import OpenEnv, OpenEnvTransport
from rollwright.environments.adapters.step_text import StepText, entry_of, require_package
from rollwright.environments.adapters.text_arena import OpponentFn, TextArena, text_arena
from rollwright.environments.adapters.trl_class import RewardFn, TrlClass
from rollwright.environments.adapters.verifiers_package import CONVERSATION, VerifiersGames

__all__ = [
    "AgentBench",
    "AgentTurn",
    "BenchSession",
    "BenchTask",
    "SampleRewardFn",
    "AppWorldApi",
    "AppWorldGames",
    "CONVERSATION",
    "OUTCOME",
    "AdaptedEnvironment",
    "Departure",
    "Game",
    "GameLimits",
    "Move",
    "NemoGym",
    "OpenEnv",
    "OpenEnvTransport",
    "OpponentFn",
    "RewardFn",
    "ServerAddress",
    "StartFn",
    "StepText",
    "TextArena",
    "TrlClass",
    "VerifiersGames",
    "entry_of",
    "nemo_gym_messages",
    "require_package",
    "text_arena",
]
