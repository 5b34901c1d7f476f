"""Runs episodes that somebody else's agent drives: the counterpart of `run_episode`.

    spec ──► session behind an address ◄── requests ── agent
                 │                                       │ ends, fails, goes on too long
                 └──────────────► trajectory ◄───────────┘

Whatever the agent does, the episode ends as a trajectory:

| what happened | terminal reason |
|---|---|
| it ended behind a turn | `model_end` |
| its last turn was cut by the context, or a request did not fit there | `context_limit` |
| tokens or turns ran out; a turn was cut by its own limit | `token_limit`, `turn_limit` |
| its time was over | `wall_clock_limit`, or as `limits.clock` says |
| it raised, was killed, or left another status than 0 | `infrastructure_failure`, or as `blames` says |
| it never took a turn; the engine was lost | `infrastructure_failure` |
| it was ended from outside | `aborted`, `superseded` |

The cause says what no reason says. Requests behind the end are refused with 410 and change nothing.
"""

import asyncio
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Engine, TerminalReason, Trajectory
from rollwright.rendering import Renderer
from rollwright.rollout.clock import Clock
from rollwright.rollout.endings import LEAST_WAIT_S
from rollwright.rollout.gateway.agents import Agent, AgentEnd
from rollwright.rollout.gateway.reports import AgentFace
from rollwright.rollout.gateway.server import Gateway
from rollwright.rollout.gateway.session import Session
from rollwright.rollout.spec import EpisodeSpec, Interruption
from rollwright.rollout.stay import GRACE_S

__all__ = ["GatewayEpisodes"]

LOOK_S = 0.25
"""Between two looks at an interruption and the clock while the agent is busy with itself."""
HEARING_S = 0.5
"""How long an agent has to hear of a failure of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayEpisodes:
    """Episodes of one agent."""

    gateway: Gateway
    agent: Agent
    engine: Engine
    renderer: Renderer
    clock: Clock
    policy: str = "policy"
    blames: Literal["infrastructure", "policy"] = "infrastructure"
    """Whose doing a failed agent is: nobody's, so that the episode is retried and never trained; or the policy's, whose
    answers it could not stand. Choose the second for an agent that fails at bad answers alone: else the episodes in
    which the policy did worst are missing from what it learns of."""
    grace_s: float = GRACE_S
    """How long an agent has to come to its end where a limit has ended its episode."""

    async def run(self, spec: EpisodeSpec, interruption: Interruption | None = None) -> Trajectory:
        """Run one attempt to its end.

        Args:
            spec: what it is, its seeds and its limits.
            interruption: ends the episode from outside.

        Returns:
            The trajectory, whatever happened; only cancelling the task raises.
        """
        face = AgentFace(name=self.agent.name, revision=self.agent.revision)
        session = Session(
            spec,
            engine=self.engine,
            policy=self.policy,
            renderer=self.renderer,
            clock=self.clock,
            interruption=interruption or Interruption(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                session.begin(group)
                end = await self._live(session, face, group)
                session.close()
        finally:
            await session.release()
        session.reports.keep(end.artifacts)
        if end.reward is not None:
            session.reports.outcome(end.reward, {}, is_over=True)
        blame = TerminalReason.INFRASTRUCTURE_FAILURE
        session.settle(end.failure, blame if self.blames == "infrastructure" else TerminalReason.ENVIRONMENT_FAILURE)
        return session.trajectory(face)

    async def _live(self, session: Session, face: AgentFace, group: asyncio.TaskGroup) -> AgentEnd:
        """Have the agent run until it ends, or its episode does."""
        with self.gateway.opened(session, face) as address:
            running = group.create_task(
                self.agent.run(address, session.spec.task, session), name=f"agent of {session.name}"
            )
            ended = group.create_task(session.ending.has_come.wait(), name=f"end of {session.name}")
            while not running.done() and not session.ending.has_come.is_set():
                wait_s = max(min(LOOK_S, session.time.remaining_s()), LEAST_WAIT_S)
                await asyncio.wait({running, ended}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                session.ending.look()
            ended.cancel()
            if not running.done():
                await asyncio.wait({running}, timeout=self._patience_s(session))
            if running.done():
                return running.result()
            running.cancel()
            await asyncio.wait({running})
            return AgentEnd()

    def _patience_s(self, session: Session) -> float:
        """How long an agent may go on behind the end of its episode."""
        reason = session.ending.reason
        if reason is None or reason in (TerminalReason.ABORTED, TerminalReason.SUPERSEDED):
            return 0.0
        own_s = self.grace_s if reason.is_truncated else HEARING_S
        return max(0.0, min(own_s, session.time.remaining_s()))
