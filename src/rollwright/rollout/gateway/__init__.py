"""Drives somebody else's agent: serves it the APIs that it speaks, and keeps the tokens. It knows no environment."""

from rollwright.rollout.gateway.agents import Agent, AgentEnd, ExternalAgent, FunctionAgent, ProgramAgent
from rollwright.rollout.gateway.episodes import GatewayEpisodes
from rollwright.rollout.gateway.server import Address, Gateway

__all__ = [
    "Address",
    "Agent",
    "AgentEnd",
    "ExternalAgent",
    "FunctionAgent",
    "Gateway",
    "GatewayEpisodes",
    "ProgramAgent",
]
