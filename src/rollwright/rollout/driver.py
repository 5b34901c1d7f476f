"""Drives one environment with engines, from the first observation to a terminal reason.

    observations ──render──► contexts ──engines──► turns ──parse──► calls ──episode.call──► results
         ▲                                                                                     │
         └──────────────────────────── episode.step(action) ◄──────────────────────────────────┘

Turns that are opened together are sampled together; their calls and actions reach the environment in order of opening,
so nothing depends on which engine was faster. It waits on engines (until the request's deadline) and on the environment
(until the wall clock's limit), and reads all that the environment gives at its border. Every end is a trajectory:
limits by their reason, accidents as infrastructure failures with their cause. Whatever happens, each request is ended
and each session released. A leg that parks at a limit leaves what another attempt needs to go on; one with a past takes
its turns from there first.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import numpy as np

from rollwright.record import (
    Action,
    Engine,
    Environment,
    EnvironmentBrokenError,
    Episode,
    GenerationRequest,
    NamedValue,
    NotSnapshottableError,
    Observation,
    Span,
    StepResult,
    TerminalReason,
    ToolResult,
    Trajectory,
    Verdict,
    ids,
)
from rollwright.rendering import ParsedTurn, Renderer
from rollwright.rollout.borders import (
    describe,
    is_cancelled,
    read_artifacts,
    read_face,
    read_snapshot,
    read_step,
    read_tools,
    storable,
)
from rollwright.rollout.calls import CallBook, CallPlace
from rollwright.rollout.clock import Clock
from rollwright.rollout.endings import LEAST_WAIT_S, EpisodeEndedError, Timekeeper, failure_class_of
from rollwright.rollout.parking import PARKED_AT, History, Leg, Parked
from rollwright.rollout.sampling import SampledTurn, joined_turns, sample_turn
from rollwright.rollout.scene import Actor, Scene
from rollwright.rollout.spec import EpisodeSpec, Interruption
from rollwright.rollout.stay import GRACE_S, Stay, owed
from rollwright.rollout.turns import OpenTurn, TurnOpener

__all__ = ["run_episode", "run_leg"]


async def run_episode(
    spec: EpisodeSpec,
    *,
    engines: Mapping[str, Engine],
    environment: Environment,
    renderer: Renderer,
    clock: Clock,
    interruption: Interruption | None = None,
) -> Trajectory:
    """Run one attempt to its end.

    Args:
        spec: what it is, its seeds and its limits.
        engines: policy to the engine that serves it; each policy of `environment.actors` needs one.
        environment: opened once, left at the end.
        renderer: of the policies' tokenizer.
        clock: for time stamps and durations.
        interruption: ends the episode from outside.

    Returns:
        The trajectory, whatever happened; only cancelling the task raises.
    """
    driver = _Driver(Leg(spec=spec), engines, environment, renderer, clock, interruption or Interruption())
    return await driver.run()


async def run_leg(
    leg: Leg,
    *,
    engines: Mapping[str, Engine],
    environment: Environment,
    renderer: Renderer,
    clock: Clock,
    interruption: Interruption | None = None,
) -> Trajectory | Parked:
    """Run an attempt that goes on with a parked episode, or may leave one.

    Args:
        leg: the attempt, what it goes on with, and what a limit does to it.
        engines: as in `run_episode`, like the rest.
        environment: opened from the snapshot of what was parked, where there is one.
        renderer: of the policies' tokenizer.
        clock: for time stamps and durations.
        interruption: ends the episode from outside.

    Returns:
        The trajectory; where a limit cut the episode and the leg parks, all that another leg needs.
    """
    driver = _Driver(leg, engines, environment, renderer, clock, interruption or Interruption())
    trajectory = await driver.run()
    return driver.parked(trajectory) or trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Where the episode is parked."""

    reason: TerminalReason
    """The limit; superseded where it was ended from outside."""
    snapshot: bytes | None


class _Driver:
    def __init__(
        self,
        leg: Leg,
        engines: Mapping[str, Engine],
        environment: Environment,
        renderer: Renderer,
        clock: Clock,
        interruption: Interruption,
    ) -> None:
        self._leg = leg
        self._spec = spec = leg.spec
        self._history = History(leg)
        self._opener = TurnOpener(leg, self._history, engines)
        self._engines = engines
        self._environment = environment
        self._face = read_face(environment)
        self._renderer = renderer
        self._clock = clock
        self._interruption = interruption
        self._time = Timekeeper(clock, spec.limits)
        self._calls = CallBook(spec.trajectory_id, spec.limits, clock, self._face.revision)
        self._scene = Scene(spec, renderer, self._face.actors, self._calls)
        self._sessions: dict[str, Engine] = {}
        self._artifacts: Mapping[str, bytes] = {}
        self._rewards: list[Verdict] = []
        self._initial_state_hash: str | None = None
        self._open: tuple[Observation, ...] = ()
        self._unfinished: tuple[OpenTurn, ...] = ()
        self._cut: _Cut | None = None
        self._sampling_s = 0.0
        self._tools_s = 0.0

    async def run(self) -> Trajectory:
        """Live the episode and give everything back."""
        try:
            reason, cause = await self._settle()
        finally:
            await self._release()
        return self._trajectory(reason, cause)

    async def _settle(self) -> tuple[TerminalReason, str | None]:
        """Whatever the episode runs into becomes a reason."""
        name = self._face.name
        try:
            if self._face.fault is not None:
                raise EnvironmentBrokenError(self._face.fault)
            async with Stay(self._opened(), self._time) as episode:
                reason, cause = await self._until_end(episode)
                if self._leg.at_limit == "park" and reason in PARKED_AT:
                    self._cut = _Cut(reason=reason, snapshot=await _snapshot(episode))
                    reason, cause = TerminalReason.SUPERSEDED, f"parked at {reason}"
                elif self._leg.when_superseded == "park" and reason is TerminalReason.SUPERSEDED:
                    self._cut = _Cut(reason=reason, snapshot=await _snapshot(episode))
                elif reason.is_trainable:
                    left = await owed(episode.artifacts(), GRACE_S, "leaving its artifacts")
                    self._artifacts = read_artifacts(left)
            return reason, cause
        except EpisodeEndedError as error:
            return error.reason, error.cause
        except EnvironmentBrokenError as error:
            return TerminalReason.INFRASTRUCTURE_FAILURE, f"environment {name} broke: {error}"
        except Exception as error:  # noqa: BLE001 - the loop that turns a failed rollout into a record
            return TerminalReason.INFRASTRUCTURE_FAILURE, f"environment {name} failed: {describe(error)}"
        except BaseException as error:  # noqa: BLE001 - code from outside may ask for more than the end of its episode
            if is_cancelled(error):
                raise
            return TerminalReason.INFRASTRUCTURE_FAILURE, f"environment {name} gave up: {describe(error)}"

    def _opened(self) -> AbstractAsyncContextManager[Episode]:
        task, seed, snapshot = self._spec.task, self._spec.reset_seed, self._history.snapshot
        if snapshot is None:
            return self._environment.open(task, seed=seed)
        return self._environment.open(task, seed=seed, snapshot=snapshot)

    async def _until_end(self, episode: Episode) -> tuple[TerminalReason, str | None]:
        try:
            return await self._live(episode), None
        except EpisodeEndedError as error:
            return error.reason, error.cause

    async def _live(self, episode: Episode) -> TerminalReason:
        """Observe, generate, parse, act, until something ends it."""
        self._scene.tools = read_tools(episode.tools)
        self._history.check_tools(self._scene.tools)
        begun = await self._time.within(episode.begin(), self._time.remaining_s(), "the environment's beginning")
        result = self._history.begin(read_step(begun))
        self._initial_state_hash = next((o.state_hash for o in result.observations if o.state_hash is not None), None)
        if result.rewards:
            raise EnvironmentBrokenError("it paid a reward before any turn was taken")
        observations, end = result.observations, result.end
        while end is None and observations:
            self._open, self._unfinished = tuple(observations), ()
            turns = self._open_turns([self._scene.observe(observation) for observation in observations])
            sampled = await self._sample(turns)
            parsed = [self._scene.write(turn.actor, drawn) for turn, drawn in zip(turns, sampled, strict=True)]
            self._unfinished = tuple(t for t, d in zip(turns, sampled, strict=True) if _is_cut(t, d))
            for turn, drawn in zip(turns, sampled, strict=True):
                self._history.take_turn(turn.actor.turn, drawn)
            for turn, drawn in zip(turns, sampled, strict=True):
                self._check_end(turn, drawn)
            observations = ()
            for turn, read in zip(turns, parsed, strict=True):
                result = await self._act(episode, turn.actor, read)
                observations, end = (*observations, *result.observations), result.end
                if end is not None:
                    break
        return TerminalReason.MODEL_END if end is None else TerminalReason(end)

    def _open_turns(self, actors: Sequence[Actor]) -> list[OpenTurn]:
        """Check the limits, and give each turn its share of the tokens that are left."""
        if self._interruption.reason is not None:
            raise EpisodeEndedError(self._interruption.reason, "the episode was ended from outside")
        if self._time.remaining_s() <= 0:
            self._time.end("the episode")
        if self._scene.num_turns > self._leg.limits.turns:
            raise EpisodeEndedError(TerminalReason.TURN_LIMIT)
        return self._opener.open(actors, self._scene.num_sampled)

    async def _sample(self, turns: Sequence[OpenTurn]) -> list[SampledTurn]:
        started = self._clock.monotonic()
        if len(turns) == 1:
            sampled = [await self._sample_one(turns[0])]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._sample_one(t), name=f"turn {t.actor.turn}") for t in turns]
            sampled = [task.result() for task in tasks]
        self._sampling_s += self._clock.monotonic() - started
        return sampled

    async def _sample_one(self, turn: OpenTurn) -> SampledTurn:
        spec, context, drawn = self._spec, turn.actor.context, turn.drawn
        if drawn is not None and turn.max_tokens == 0:
            return drawn
        behind = context.token_ids()
        engine = self._engines[context.policy]
        session = f"{spec.trajectory_id}/{context.number}"
        self._sessions[session] = engine
        deadline_s = max(self._time.remaining_s(), LEAST_WAIT_S)
        request = GenerationRequest(
            request_id=f"{spec.trajectory_id}/t{turn.actor.turn}",
            policy=context.policy,
            session=session,
            context=context.number,
            share=spec.share,
            token_ids=behind if drawn is None else ids(np.concatenate([behind, drawn.token_ids])),
            sampling=spec.sampling,
            max_tokens=turn.max_tokens,
            deadline_s=deadline_s,
            seed=spec.episode_seed,
            stop_token_ids=self._renderer.stop_token_ids,
        )
        sampled = await sample_turn(engine, request, self._interruption, deadline_s + GRACE_S)
        return sampled if drawn is None else joined_turns(drawn, sampled)

    def _check_end(self, turn: OpenTurn, sampled: SampledTurn) -> None:
        """Leave the loop where the turn did not end as a turn does."""
        if self._interruption.reason is not None:
            raise EpisodeEndedError(self._interruption.reason, "the episode was ended from outside")
        if sampled.failure is not None:
            raise EpisodeEndedError(TerminalReason.INFRASTRUCTURE_FAILURE, sampled.failure)
        if sampled.finish == "aborted":
            if self._time.remaining_s() > 0:
                cause = "the engine aborted a request that nobody cancelled"
                raise EpisodeEndedError(TerminalReason.INFRASTRUCTURE_FAILURE, cause)
            self._time.end("a turn")
        if sampled.finish == "length" and turn.bound is not None:
            raise EpisodeEndedError(turn.bound)

    async def _act(self, episode: Episode, actor: Actor, parsed: ParsedTurn) -> StepResult:
        """Run the calls of a turn, then let the environment take it."""
        asked_in = actor.context.last or 0
        started = self._clock.monotonic()
        if parsed.calls:
            actor.results = await self._answers(episode, parsed, CallPlace(segment=asked_in, turn=actor.turn))
        action = Action(
            actor=actor.context.actor,
            turn=actor.turn,
            text=parsed.answer,
            calls=actor.results,
            parse_error=parsed.parse_error,
        )
        result = self._history.recorded_step()
        if result is None:
            taken = await self._time.within(episode.step(action), self._time.remaining_s(), "the environment's step")
            result = self._history.take_step(read_step(taken))
        self._tools_s += self._clock.monotonic() - started
        self._rewards += [self._verdict(reward, asked_in) for reward in result.rewards]
        return result

    async def _answers(self, episode: Episode, parsed: ParsedTurn, place: CallPlace) -> tuple[ToolResult, ...]:
        """Of the tools; what a snapshot holds already is not done again."""
        recorded = self._history.recorded_calls(place.turn)
        if recorded is None:
            results = await self._calls.run(episode, parsed.calls, place, self._time.remaining_s())
            if self._calls.has_timed_out and (self._spec.limits.clock == "failure" or self._time.remaining_s() <= 0):
                self._time.end("a tool call")
        else:
            rows, results = recorded
            self._calls.carry(rows)
        self._history.take_results(place.turn, results)
        return results

    def _verdict(self, reward: NamedValue, segment: int) -> Verdict:
        return Verdict(
            trajectory_id=self._spec.trajectory_id,
            verifier=f"{self._face.name}/{reward.name}",
            revision=self._face.revision,
            scope="turn",
            outcome=reward.value,
            components=(reward,),
            span=Span(segment=segment, token_start=0, token_end=self._scene.segments[segment].num_tokens),
        )

    def parked(self, trajectory: Trajectory) -> Parked | None:
        """What another attempt needs to go on; None where this one has come to its end."""
        cut = self._cut
        if cut is None or trajectory.terminal_reason is not TerminalReason.SUPERSEDED:
            return None
        is_shared = not self._unfinished or any(turn.share == "episode" for turn in self._unfinished)
        is_interrupted = cut.reason is TerminalReason.SUPERSEDED
        # A turn of which nothing was drawn has no past: it is drawn from its beginning, under the weights of then.
        empty = {t.actor.turn for t in self._unfinished if self._history.turns[t.actor.turn].num_tokens == 0}
        return Parked(
            trajectory=trajectory,
            limits=self._leg.limits
            if is_interrupted
            else self._leg.further_limits(cut.reason, "episode" if is_shared else "turn"),
            tools=self._scene.tools,
            turns={number: turn for number, turn in self._history.turns.items() if number not in empty},
            cut=frozenset(turn.actor.turn for turn in self._unfinished) - empty,
            results=self._history.results,
            steps=self._history.steps,
            open_turns=self._open,
            snapshot=cut.snapshot,
            is_interrupted=is_interrupted,
        )

    async def _release(self) -> None:
        """Give the sessions back; an engine that fails at it is lost anyway, and its own requests say so."""
        for session, engine in self._sessions.items():
            try:
                async with asyncio.timeout(GRACE_S):
                    await engine.release(session)
            except Exception:  # noqa: BLE001, PERF203 - the trajectory stands; the other sessions are released too
                continue

    def _trajectory(self, reason: TerminalReason, cause: str | None) -> Trajectory:
        spec = self._spec
        costs = [row.cost for row in self._calls.rows if row.cost is not None]
        return Trajectory(
            trajectory_id=spec.trajectory_id,
            purpose=spec.purpose,
            stage=spec.stage,
            group_id=spec.group_id,
            slot=spec.slot,
            attempt=spec.attempt,
            task=spec.task,
            environment=self._face.name,
            environment_revision=self._face.revision,
            sandbox_profile=spec.sandbox_profile,
            reset_seed=spec.reset_seed,
            initial_state_hash=self._initial_state_hash,
            rendering_revision=self._renderer.revision(self._scene.tools),
            lineage=spec.lineage,
            parent_trajectory_id=spec.parent_trajectory_id,
            terminal_reason=reason,
            failure_class=failure_class_of(reason),
            failure_cause=None if cause is None else storable(cause),
            segments=tuple(self._scene.segments),
            tool_calls=self._calls.rows,
            artifacts=self._artifacts,
            turn_rewards=tuple(self._rewards),
            started_at=self._time.started_at,
            ended_at=self._clock.now(),
            queue_s=spec.queue_s,
            sampling_s=self._sampling_s,
            tools_s=self._tools_s,
            cost=sum(costs) if costs else None,
        )


def _is_cut(turn: OpenTurn, sampled: SampledTurn) -> bool:
    """True where more of a turn could be drawn: its tokens ran out, or it was ended from outside."""
    return sampled.finish == "aborted" or (turn.bound is not None and sampled.finish == "length")


async def _snapshot(episode: Episode) -> bytes | None:
    """The state in which the environment waits; None where it takes no snapshots."""
    try:
        return read_snapshot(await owed(episode.snapshot(), GRACE_S, "taking a snapshot"))
    except NotSnapshottableError:
        return None
