"""One episode behind an address: requests come in, turns are drawn, and in the end a trajectory stands.

    request ──► Ask ──► place in the history ──► n turns, each a task of the episode ──► Answers
                              │ context, tokens, turns, time are checked             │
                              ▼                                                      ▼
                        ApiError to the client                          segments, calls, what was told

Turns are tasks of the episode's group, not of the connection: who leaves has them cancelled, and so has the episode's
end. A turn that nobody was told is not part of the episode; its tokens count against the limits, and are reported.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import numpy as np

from rollwright.record import Chunk, Engine, GenerationRequest, NamedValue, TerminalReason, Trajectory, logprobs
from rollwright.rendering import HermesGrammar, LlamaGrammar, Renderer
from rollwright.rollout.borders import describe, storable
from rollwright.rollout.calls import CallPlace
from rollwright.rollout.clock import Clock
from rollwright.rollout.endings import LEAST_WAIT_S, Timekeeper, failure_class_of
from rollwright.rollout.gateway.allowance import Allowance
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Told, ToldCall
from rollwright.rollout.gateway.ending import Ending
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.exchange import Drawing, Exchange
from rollwright.rollout.gateway.history import History, Taken
from rollwright.rollout.gateway.reported_calls import ReportedCalls
from rollwright.rollout.gateway.reports import AgentFace, Reports
from rollwright.rollout.gateway.telling import Teller, read_turn
from rollwright.rollout.sampling import SampledTurn, sample_turn
from rollwright.rollout.spec import EpisodeSpec, Interruption
from rollwright.rollout.stay import GRACE_S

__all__ = ["Session"]

MOST_COUNTED = 4096
"""Counts of tokens in one episode: what is counted is kept, for the request that it is counted for."""


class Session:
    """Takes the requests of one episode while it lasts."""

    def __init__(
        self,
        spec: EpisodeSpec,
        *,
        engine: Engine,
        policy: str,
        renderer: Renderer,
        clock: Clock,
        interruption: Interruption,
    ) -> None:
        self.spec = spec
        self.policy = policy
        """The model that the address serves."""
        self.time = Timekeeper(clock, spec.limits)
        self.ending = Ending(spec.trajectory_id, self.time, interruption)
        self.reports = Reports(spec.trajectory_id, self.ending)
        self.remembered: dict[str, tuple[Heard | Told, ...]] = {}
        """Conversations by the id of the response that they came to."""
        self.finished: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """Set where the agent says that it is done; with a text, that it failed."""
        self._engine = engine
        self._renderer = renderer
        self._clock = clock
        self._interruption = interruption
        self._calls = ReportedCalls(spec.trajectory_id, spec.limits, clock)
        self._history = History(spec, renderer, policy, self._calls)
        self._allowance = Allowance(spec.limits, engine.capabilities.max_context_tokens, self.ending)
        self._group: asyncio.TaskGroup | None = None
        self._exchanges: dict[str, Exchange] = {}
        self._sessions: set[str] = set()
        self._num_counted = 0
        self._sampling_s = 0.0
        self._drawing_since = 0.0

    @property
    def name(self) -> str:
        """The trajectory's id, which is in the address."""
        return self.spec.trajectory_id

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Take requests from now on; their turns are tasks of `group`."""
        self._group = group

    def close(self) -> None:
        """Take no more requests, and cancel what is in flight: the agent has ended."""
        self._group = None
        for exchange in self._exchanges.values():
            exchange.abandon()

    def say_finished(self, failure: str | None) -> None:
        """The agent says that it is done, or why it failed; the first word stands."""
        if not self.finished.done():
            self.finished.set_result(failure)

    def request(self, ask: Ask) -> Exchange:
        """Begin to answer a request.

        Raises:
            ApiError: where it gets no answer; nothing was drawn then.
        """
        try:
            group = self._open_group()
            self._allowance.check_size(ask)
            self._stop_strings(ask)
            prompt = self._history.place(ask, self._clock.monotonic())
            share = self._allowance.share(ask, prompt)
        except ApiError as error:
            self.reports.refuse(error)
            raise
        self.reports.take(ask)
        drawings = [
            Drawing(
                prompt=prompt,
                number=self._history.number_for(prompt),
                teller=Teller(renderer=self._renderer, ask=ask),
                max_tokens=share.max_tokens,
                bound=share.bound,
            )
            for _ in range(ask.num_answers)
        ]
        number = self.reports.num_requests
        exchange = Exchange(
            ask=ask,
            name=f"{self.name}-{number}",
            number=number,
            created=int(self._clock.now().timestamp()),
            num_prompt_tokens=len(prompt.token_ids),
            drawings=tuple(drawings),
        )
        self._start(exchange, group)
        return exchange

    def count_tokens(self, ask: Ask) -> int:
        """How many tokens the messages of a request are; nothing is drawn.

        Raises:
            ApiError: as in `request`.
        """
        self._open_group()
        self._allowance.check_size(ask)
        self._num_counted += 1
        if self._num_counted > MOST_COUNTED:
            raise ApiError(429, f"This episode has counted tokens {MOST_COUNTED} times.", code="rate_limit_exceeded")
        return len(self._history.place(ask, self._clock.monotonic()).token_ids)

    def reward_turn(self, response_id: str, choice: int, reward: NamedValue, face: AgentFace) -> None:
        """Note what the agent reports of one turn.

        Raises:
            ApiError: 404 where no such turn was told.
        """
        exchange = self._exchanges.get(response_id.removeprefix("chatcmpl-").removeprefix("resp_").removeprefix("msg_"))
        taken = None if exchange is None or choice >= len(exchange.drawings) else exchange.drawings[choice].taken
        if taken is None:
            message = f"This episode gave no answer {response_id[:80]!r} with choice {choice}."
            raise ApiError(404, message, param="response_id", code="response_not_found")
        self.reports.turn(taken.segments[-1], reward, face)

    def settle(self, failure: str | None, blame: TerminalReason) -> None:
        """Make a reason of how the agent ended; see `Ending`."""
        if self._allowance.num_turns:
            self.ending.settle(failure, blame)
        else:
            self.ending.settle_without_turn(failure, self.reports.last_refusal)

    async def release(self) -> None:
        """Give the engine's sessions back; an engine that fails at it is lost anyway, and its own requests say so."""
        for session in sorted(self._sessions):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(GRACE_S):
                    await self._engine.release(session)

    def trajectory(self, face: AgentFace) -> Trajectory:
        """What the episode came to, once it has settled.

        Args:
            face: the agent, in the place of an environment.
        """
        spec, reason, cause = self.spec, self.ending.reason, self.ending.cause
        assert reason is not None
        refused = self._allowance.refused_prompt
        if self._history.num_turns == 0 and reason is TerminalReason.CONTEXT_LIMIT and refused is not None:
            self._history.write_prompt(refused, 0)
        ended_at = self._clock.now()
        whole_s = (ended_at - self.time.started_at).total_seconds()
        return Trajectory(
            trajectory_id=spec.trajectory_id,
            purpose=spec.purpose,
            stage=spec.stage,
            group_id=spec.group_id,
            slot=spec.slot,
            attempt=spec.attempt,
            task=spec.task,
            environment=face.name,
            environment_revision=face.revision,
            sandbox_profile=spec.sandbox_profile,
            reset_seed=spec.reset_seed,
            initial_state_hash=None,
            rendering_revision=self._renderer.revision(self._history.tools or {}),
            lineage=spec.lineage,
            parent_trajectory_id=spec.parent_trajectory_id,
            terminal_reason=reason,
            failure_class=failure_class_of(reason),
            failure_cause=None if cause is None else storable(cause),
            segments=self._history.segments,
            tool_calls=self._calls.rows,
            artifacts=self.reports.artifacts,
            turn_rewards=self.reports.turn_rewards,
            started_at=self.time.started_at,
            ended_at=ended_at,
            queue_s=spec.queue_s,
            sampling_s=self._sampling_s,
            tools_s=max(0.0, whole_s - self._sampling_s),
        )

    def _open_group(self) -> asyncio.TaskGroup:
        """Where the turns of a request run.

        Raises:
            ApiError: 410 behind the end.
        """
        self.ending.check()
        if self._group is None:
            raise self.ending.refusal()
        return self._group

    def _start(self, exchange: Exchange, group: asyncio.TaskGroup) -> None:
        running = self._allowance.running
        if not running:
            self._drawing_since = self._clock.monotonic()
        running.update(exchange.drawings)
        self._exchanges[exchange.name] = exchange
        tasks: list[asyncio.Task[None]] = []
        for at, drawing in enumerate(exchange.drawings):
            task = group.create_task(self._draw(exchange, at), name=f"{exchange.name}.{at}")
            task.add_done_callback(lambda _, drawing=drawing: self._put_down(exchange, drawing))
            tasks.append(task)
        exchange.tasks = tuple(tasks)

    async def _draw(self, exchange: Exchange, at: int) -> None:
        """Draw one turn, write it and tell it."""
        drawing = exchange.drawings[at]
        try:
            sampled = await self._sampled(exchange, at)
            rows: tuple[str, ...] = ()
            if sampled.runs:
                drawing.taken = self._history.write(drawing.prompt, drawing.number, sampled, exchange.ask)
                self._allowance.num_turns = self._history.num_turns
                self._allowance.num_sampled += sampled.num_tokens
                rows = self._ask_calls(drawing.taken, exchange.ask)
            drawing.refusal = self._check_end(drawing, sampled)
            if drawing.refusal is None and drawing.taken is not None:
                drawing.answer = self._tell(exchange, drawing.taken, sampled, rows)
        except Exception as error:  # noqa: BLE001 - becomes the end of this episode, and of no other
            self.ending.come(TerminalReason.INFRASTRUCTURE_FAILURE, f"the gateway failed: {describe(error)}")
            drawing.refusal = _failed()

    def _put_down(self, exchange: Exchange, drawing: Drawing) -> None:
        """A turn is no longer in flight, whatever became of it; it may have been cancelled before it began."""
        running = self._allowance.running
        running.discard(drawing)
        if not running:
            self._sampling_s += self._clock.monotonic() - self._drawing_since
        if drawing.taken is None:
            self._history.give_back(drawing.prompt, drawing.number)
            self._allowance.num_sampled += drawing.num_drawn
            self.reports.cancel(drawing.num_drawn)
        if not drawing.is_done:
            drawing.refusal = self.ending.refusal()
        exchange.news.set()

    async def _sampled(self, exchange: Exchange, at: int) -> SampledTurn:
        spec, ask, drawing = self.spec, exchange.ask, exchange.drawings[at]
        session = f"{spec.trajectory_id}/{drawing.number}"
        self._sessions.add(session)

        def note(chunk: Chunk) -> None:
            drawing.chunks.append(chunk)
            exchange.news.set()

        deadline_s = max(self.time.remaining_s(), LEAST_WAIT_S)
        request = GenerationRequest(
            request_id=f"{spec.trajectory_id}/r{exchange.number}.{at}",
            policy=self.policy,
            session=session,
            context=drawing.number,
            share=spec.share,
            token_ids=drawing.prompt.token_ids,
            sampling=spec.sampling,
            max_tokens=drawing.max_tokens,
            deadline_s=deadline_s,
            seed=spec.episode_seed,
            stop_token_ids=self._renderer.stop_token_ids,
            stop_strings=self._stop_strings(ask),
            chunk_tokens=1 if ask.is_streamed else 0,
        )
        return await sample_turn(self._engine, request, self._interruption, deadline_s + GRACE_S, note)

    def _stop_strings(self, ask: Ask) -> tuple[str, ...]:
        """What ends a turn besides its token. Where one call is all that is wanted, its end is the turn's.

        Raises:
            ApiError: 400 where the family writes all calls at once.
        """
        if ask.calls != "one":
            return ask.stops
        match self._renderer.grammar:
            case HermesGrammar(closing=closing):
                return (*ask.stops, closing)
            case LlamaGrammar():
                return ask.stops
            case grammar:
                raise ApiError(
                    400,
                    f"This model writes its calls in one list ({grammar.name}); parallel calls cannot be kept off.",
                    param="parallel_tool_calls",
                    code="unsupported_value",
                )

    def _ask_calls(self, taken: Taken, ask: Ask) -> tuple[str, ...]:
        """Rows of the calls of a turn, where they are read."""
        if ask.calls == "text":
            return ()
        last = taken.segments[-1]
        return self._calls.ask(taken.turn, CallPlace(segment=last.segment, turn=last.turn), ask.tools)

    def _check_end(self, drawing: Drawing, sampled: SampledTurn) -> ApiError | None:
        """End the episode where the turn did not end as a turn does; the error, where there is no answer then."""
        ending = self.ending
        if sampled.failure is not None:
            ending.come(TerminalReason.INFRASTRUCTURE_FAILURE, sampled.failure)
            return _failed()
        ending.look()
        if sampled.finish == "aborted":
            ending.come(TerminalReason.INFRASTRUCTURE_FAILURE, "the engine aborted a request that nobody cancelled")
            return ending.refusal()
        if ending.reason is not None and not ending.reason.is_truncated:
            return ending.refusal()
        ending.cut = drawing.bound if sampled.finish == "length" else None
        if ending.cut is TerminalReason.TOKEN_LIMIT:
            ending.come(ending.cut)
        return None

    def _tell(self, exchange: Exchange, taken: Taken, sampled: SampledTurn, rows: Sequence[str]) -> Answer:
        ask = exchange.ask
        read = read_turn(taken.turn, sampled.finish, ask)
        names = {f"call_{row.replace('/', '_')}": row for row in rows}
        calls = tuple(
            ToldCall(call_id=name, tool=call.tool, arguments=call.arguments)
            for name, call in zip(names, read.calls, strict=True)
        )
        told = Told(text=read.text, reasoning=read.reasoning, calls=calls)
        self._history.tell(taken, told, names, self._clock.monotonic())
        if ask.num_answers == 1:
            self.remembered[f"resp_{exchange.name}"] = (*ask.messages[ask.num_instructions :], told)
        finish = "length" if sampled.finish == "length" else "stop"
        return Answer(
            told=told,
            finish="calls" if calls else "stop_string" if read.stop_string is not None else finish,
            stop_string=read.stop_string,
            token_ids=taken.turn.token_ids,
            behavior_logprobs=logprobs(np.concatenate([run.behavior_logprobs for run in sampled.runs])),
            num_prompt_tokens=exchange.num_prompt_tokens,
            num_reasoning_tokens=sum(s.token_end - s.token_start for s in taken.turn.spans if s.kind == "reasoning"),
        )


def _failed() -> ApiError:
    return ApiError(500, "The server had an error while processing your request.", code="server_error")
