"""Environments that were written for other packages, played under our driver. Each names what it cannot carry."""

from rollwright.environments.adapters.game import OUTCOME, AdaptedEnvironment, Game, GameLimits, Move, StartFn
from rollwright.environments.adapters.text_arena import OpponentFn, TextArena, text_arena

__all__ = [
    "OUTCOME",
    "AdaptedEnvironment",
    "Game",
    "GameLimits",
    "Move",
    "OpponentFn",
    "StartFn",
    "TextArena",
    "text_arena",
]
