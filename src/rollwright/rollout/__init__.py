"""Drives an environment with an engine, one attempt at a time. It knows no statistics, no reward and no weights."""

from rollwright.rollout.clock import Clock, FixedClock, SystemClock
from rollwright.rollout.driver import run_episode, run_leg
from rollwright.rollout.groups import run_group
from rollwright.rollout.parking import Leg, Parked
from rollwright.rollout.spec import EpisodeSpec, Interruption, Limits
from rollwright.rollout.submission import submission_of

__all__ = [
    "Clock",
    "EpisodeSpec",
    "FixedClock",
    "Interruption",
    "Leg",
    "Limits",
    "Parked",
    "SystemClock",
    "run_episode",
    "run_group",
    "run_leg",
    "submission_of",
]
