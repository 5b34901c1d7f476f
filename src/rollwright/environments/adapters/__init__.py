"""Environments that were written for other packages, played under our driver. Each names what it cannot carry."""

from rollwright.environments.adapters.game import (
    OUTCOME,
    AdaptedEnvironment,
    Departure,
    Game,
    GameLimits,
    Move,
    StartFn,
)
from rollwright.environments.adapters.text_arena import OpponentFn, TextArena, text_arena
from rollwright.environments.adapters.verifiers_package import CONVERSATION, VerifiersGames

__all__ = [
    "CONVERSATION",
    "OUTCOME",
    "AdaptedEnvironment",
    "Departure",
    "Game",
    "GameLimits",
    "Move",
    "OpponentFn",
    "StartFn",
    "TextArena",
    "VerifiersGames",
    "text_arena",
]
