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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rollwright.record import (
    Chunk,
    Engine,
    GenerationRequest,
    NamedValue,
    Span,
    TerminalReason,
    Trajectory,
    Verdict,
    canonical_json,
    logprobs,
)
from rollwright.rendering import HermesGrammar, LlamaGrammar, Renderer
from rollwright.rollout.borders import describe, storable
from rollwright.rollout.calls import CallPlace
from rollwright.rollout.clock import Clock
from rollwright.rollout.endings import LEAST_WAIT_S, EpisodeEndedError, Timekeeper, failure_class_of
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Told, ToldCall
from rollwright.rollout.gateway.errors import ApiError, ended, too_long
from rollwright.rollout.gateway.history import History, Prompt, Taken
from rollwright.rollout.gateway.reported_calls import ReportedCalls
from rollwright.rollout.gateway.telling import Teller, read_turn
from rollwright.rollout.sampling import SampledTurn, sample_turn
from rollwright.rollout.spec import EpisodeSpec, Interruption
from rollwright.rollout.stay import GRACE_S

__all__ = ["AgentFace", "Drawing", "Exchange", "Session"]

REPORT = "gateway.json"
"""The artifact that says what the tables have no column for."""
OUTCOME = "outcome.json"
"""What the agent reported as its reward, as the verifier `reported` reads it."""
LONGEST_TOKEN = 64
"""Characters; a text that is longer than the context of such tokens is refused unread."""
MOST_REFUSED = 1024
"""Requests of one episode that are refused; an agent that goes on behind them is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFace:
    """What the tables say of an agent: it stands where an environment does."""

    name: str
    revision: str


@dataclass(slots=True, kw_only=True, eq=False)
class Drawing:
    """One turn of an exchange, in flight or done."""

    prompt: Prompt
    number: int
    """Of its context."""
    teller: Teller
    max_tokens: int
    bound: TerminalReason | None
    """What it is cut by; None: by what the agent asked for, or by a limit that is no end."""
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    taken: Taken | None = None
    """Once it is written."""
    answer: Answer | None = None
    refusal: ApiError | None = None

    @property
    def num_drawn(self) -> int:
        """Tokens so far."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)

    @property
    def is_done(self) -> bool:
        """True once it has an answer, or has none to come."""
        return self.answer is not None or self.refusal is not None


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """One request and its turns."""

    ask: Ask
    name: str
    """Unique in the run: `<trajectory_id>-<number>`."""
    created: int
    """Seconds since 1970."""
    num_prompt_tokens: int
    drawings: tuple[Drawing, ...]
    number: int
    tasks: tuple[asyncio.Task[None], ...] = ()
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a turn has gone on or is done."""

    @property
    def is_done(self) -> bool:
        """True once no turn is in flight."""
        return all(drawing.is_done for drawing in self.drawings)

    def answers(self) -> tuple[Answer, ...]:
        """Of all turns.

        Raises:
            ApiError: where one has none.
        """
        for drawing in self.drawings:
            if drawing.refusal is not None:
                raise drawing.refusal
        return tuple(drawing.answer for drawing in self.drawings if drawing.answer is not None)

    def abandon(self) -> None:
        """The client is gone: nobody waits for what is in flight."""
        for task in self.tasks:
            task.cancel()


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
        self.interruption = interruption
        self.time = Timekeeper(clock, spec.limits)
        self.ended = asyncio.Event()
        self.remembered: dict[str, tuple[Heard | Told, ...]] = {}
        """Conversations by the id of the response that they came to."""
        self.finished: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """Set where the agent says that it is done; with a text, that it failed."""
        self._engine = engine
        self._policy = policy
        self._renderer = renderer
        self._clock = clock
        self._calls = ReportedCalls(spec.trajectory_id, spec.limits, clock)
        self._history = History(spec, renderer, policy, self._calls)
        self._group: asyncio.TaskGroup | None = None
        self._reason: TerminalReason | None = None
        self._cause: str | None = None
        self._cut: TerminalReason | None = None
        self._refused_prompt: Prompt | None = None
        self._exchanges: dict[str, Exchange] = {}
        self._running: set[Drawing] = set()
        self._sessions: set[str] = set()
        self._num_requests = 0
        self._num_sampled = 0
        self._refused: dict[str, int] = {}
        self._last_refusal: str | None = None
        self._overruled: dict[str, float] = {}
        self._cancelled = {"turns": 0, "tokens": 0}
        self._rewards: dict[tuple[int, str], Verdict] = {}
        self._artifacts: dict[str, bytes] = {}
        self._sampling_s = 0.0
        self._drawing_since = 0.0

    @property
    def name(self) -> str:
        """The trajectory's id, which is in the address."""
        return self.spec.trajectory_id

    @property
    def reason(self) -> TerminalReason | None:
        """Why it has ended; None: it goes on."""
        return self._reason

    @property
    def policy(self) -> str:
        """The model that the address serves."""
        return self._policy

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Take requests from now on; their turns are tasks of `group`."""
        self._group = group

    def end(self, reason: TerminalReason, cause: str | None = None) -> None:
        """Take no more requests; the first reason stands. Turns in flight have their tokens, and may still be told."""
        if self._reason is None:
            self._reason, self._cause = reason, cause
            self.ended.set()

    def say_finished(self, failure: str | None) -> None:
        """The agent says that it is done, or why it failed; the first word stands."""
        if not self.finished.done():
            self.finished.set_result(failure)

    def cancel_turns(self) -> None:
        """Nobody waits for turns any more."""
        for exchange in self._exchanges.values():
            exchange.abandon()

    def look(self) -> None:
        """End where the episode was interrupted or its time is over."""
        if self.interruption.reason is not None:
            self.end(self.interruption.reason, "the episode was ended from outside")
        elif self.time.remaining_s() <= 0:
            self._end_by_time("the episode")

    def settle(self, failure: str | None, blame: TerminalReason) -> None:
        """The agent has ended: make a reason of it, where there is none yet.

        Args:
            failure: how it failed; None: it did not.
            blame: what a failure means.
        """
        self.look()
        if self.num_turns == 0 and self._cut is None and (self._reason is None or self._reason.is_trainable):
            said = failure or "it ended"
            refusal = "" if self._last_refusal is None else f"; its last request was refused: {self._last_refusal}"
            cause = f"the agent took no turn: {said}{refusal}"
            self._reason, self._cause = TerminalReason.INFRASTRUCTURE_FAILURE, cause
        elif self._cut is not None:
            self.end(self._cut, failure)
        elif failure is not None:
            self.end(blame, failure)
        self.end(TerminalReason.MODEL_END)

    @property
    def num_turns(self) -> int:
        """Turns that were drawn and told."""
        return self._history.num_turns

    def request(self, ask: Ask) -> Exchange:
        """Begin to answer a request.

        Raises:
            ApiError: where it gets no answer; nothing was drawn then.
        """
        try:
            return self._request(ask)
        except ApiError as error:
            self.note_refusal(error)
            raise

    def note_refusal(self, error: ApiError) -> None:
        """Count a request that got no answer."""
        key = error.code or str(error.status)
        self._refused[key] = self._refused.get(key, 0) + 1
        self._last_refusal = error.message
        if sum(self._refused.values()) >= MOST_REFUSED:
            self.end(TerminalReason.INFRASTRUCTURE_FAILURE, f"the agent went on past {MOST_REFUSED} refused requests")

    def count_tokens(self, ask: Ask) -> int:
        """How many tokens the messages of a request are; nothing is drawn.

        Raises:
            ApiError: as in `request`.
        """
        self._check_open()
        self._check_size(ask)
        return len(self._history.place(ask, self._clock.monotonic()).token_ids)

    def _request(self, ask: Ask) -> Exchange:
        self._check_open()
        self._check_size(ask)
        now = self._clock.monotonic()
        self._stop_strings(ask)
        prompt = self._history.place(ask, now)
        most, limits = self._most_tokens(), self.spec.limits
        room = most - len(prompt.token_ids)
        if room <= 0:
            self._cut, self._refused_prompt = TerminalReason.CONTEXT_LIMIT, prompt
            raise too_long(len(prompt.token_ids), most)
        reserved = sum(drawing.max_tokens for drawing in self._running)
        self._check_turns(ask.num_answers)
        left = (limits.episode_tokens - self._num_sampled - reserved) // ask.num_answers
        if left <= 0:
            raise self._exhausted(TerminalReason.TOKEN_LIMIT, limits.episode_tokens > self._num_sampled)
        self._num_requests += 1
        self._overruled.update(ask.sampling.numbers)
        max_tokens, bound = self._budget(ask, room, left)
        exchange = Exchange(
            ask=ask,
            name=f"{self.name}-{self._num_requests}",
            number=self._num_requests,
            created=int(self._clock.now().timestamp()),
            num_prompt_tokens=len(prompt.token_ids),
            drawings=tuple(
                Drawing(
                    prompt=prompt,
                    number=self._history.number_for(prompt),
                    teller=Teller(renderer=self._renderer, ask=ask),
                    max_tokens=max_tokens,
                    bound=bound,
                )
                for _ in range(ask.num_answers)
            ),
        )
        self._start(exchange)
        return exchange

    def _start(self, exchange: Exchange) -> None:
        if not self._running:
            self._drawing_since = self._clock.monotonic()
        self._running.update(exchange.drawings)
        self._exchanges[exchange.name] = exchange
        assert self._group is not None
        tasks: list[asyncio.Task[None]] = []
        for at, drawing in enumerate(exchange.drawings):
            task = self._group.create_task(self._draw(exchange, at), name=f"{exchange.name}.{at}")
            task.add_done_callback(lambda _, drawing=drawing: self._put_down(exchange, drawing))
            tasks.append(task)
        exchange.tasks = tuple(tasks)

    def _check_open(self) -> None:
        self.look()
        if self._reason is not None or self._group is None:
            raise ended(self.name, str(self._reason or "not begun"))

    def _check_size(self, ask: Ask) -> None:
        """Refuse what cannot fit before anything of it is encoded."""
        size = sum(len(message.text) for message in ask.messages) + sum(map(len, ask.tools.values()))
        most = self._most_tokens()
        if size > most * LONGEST_TOKEN:
            self._cut = TerminalReason.CONTEXT_LIMIT if self.num_turns else None
            raise too_long(size // LONGEST_TOKEN, most)

    def _check_turns(self, num_wanted: int) -> None:
        taken, most = self.num_turns, self.spec.limits.turns
        if taken + len(self._running) + num_wanted > most:
            raise self._exhausted(TerminalReason.TURN_LIMIT, taken + num_wanted <= most)

    def _exhausted(self, reason: TerminalReason, is_held: object) -> ApiError:
        """No turns or tokens left: for good, or until those in flight are done."""
        if is_held and self._running:
            return ApiError(
                429,
                f"Requests in flight hold what is left of the episode's {reason.value.partition('_')[0]}s; try again.",
                code="rate_limit_exceeded",
            )
        self.end(reason)
        return ended(self.name, str(reason))

    def _most_tokens(self) -> int:
        return min(self.spec.limits.context_tokens, self._engine.capabilities.max_context_tokens)

    def _budget(self, ask: Ask, room: int, left: int) -> tuple[int, TerminalReason | None]:
        """Tokens of one turn, and what it means when all of them are drawn."""
        limits = self.spec.limits
        own = min(room, left, limits.turn_tokens)
        if ask.max_tokens is not None and ask.max_tokens < own:
            return ask.max_tokens, None
        if own == room:
            return own, TerminalReason.CONTEXT_LIMIT
        if own == limits.turn_tokens < left and limits.cut_turn == "go_on":
            return own, None
        return own, TerminalReason.TOKEN_LIMIT

    async def _draw(self, exchange: Exchange, at: int) -> None:
        """Draw one turn, write it and tell it."""
        drawing = exchange.drawings[at]
        try:
            sampled = await self._sampled(exchange, at)
            if sampled.runs:
                self._num_sampled += sampled.num_tokens
                drawing.taken = self._history.write(drawing.prompt, drawing.number, sampled, exchange.ask)
                rows = self._asked_calls(drawing.taken, exchange.ask)
                drawing.refusal = self._check_end(drawing, sampled)
                if drawing.refusal is None:
                    drawing.answer = self._tell(exchange, drawing.taken, sampled, rows)
            else:
                drawing.refusal = self._check_end(drawing, sampled)
        except Exception as error:  # noqa: BLE001 - becomes the end of this episode, and of no other
            self.end(TerminalReason.INFRASTRUCTURE_FAILURE, f"the gateway failed: {describe(error)}")
            drawing.refusal = _failed()

    def _put_down(self, exchange: Exchange, drawing: Drawing) -> None:
        """A turn is no longer in flight, whatever became of it; it may have been cancelled before it began."""
        self._running.discard(drawing)
        if not self._running:
            self._sampling_s += self._clock.monotonic() - self._drawing_since
        if drawing.taken is None:
            self._history.give_back(drawing.prompt, drawing.number)
            self._num_sampled += drawing.num_drawn
            self._cancelled["turns"] += 1
            self._cancelled["tokens"] += drawing.num_drawn
        if not drawing.is_done:
            drawing.refusal = ended(self.name, str(self._reason)) if self._reason is not None else _failed()
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
            policy=self._policy,
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
        return await sample_turn(self._engine, request, self.interruption, deadline_s + GRACE_S, note)

    def _stop_strings(self, ask: Ask) -> tuple[str, ...]:
        """What ends a turn besides its token. Where one call is all that is wanted, its end is the turn's."""
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

    def _asked_calls(self, taken: Taken, ask: Ask) -> tuple[str, ...]:
        if ask.calls == "text":
            return ()
        last = taken.segments[-1]
        return self._calls.ask(taken.turn, CallPlace(segment=last.segment, turn=last.turn), ask.tools)

    def _check_end(self, drawing: Drawing, sampled: SampledTurn) -> ApiError | None:
        """End the episode where the turn did not end as a turn does; the error, where there is no answer then."""
        if sampled.failure is not None:
            self.end(TerminalReason.INFRASTRUCTURE_FAILURE, sampled.failure)
            return _failed()
        self.look()
        if sampled.finish == "aborted":
            self.end(TerminalReason.INFRASTRUCTURE_FAILURE, "the engine aborted a request that nobody cancelled")
        if self._reason is not None and not self._reason.is_truncated or sampled.finish == "aborted":
            return ended(self.name, str(self._reason))
        self._cut = drawing.bound if sampled.finish == "length" else None
        if self._cut is TerminalReason.TOKEN_LIMIT:
            self.end(self._cut)
        return None

    def _tell(self, exchange: Exchange, taken: Taken, sampled: SampledTurn, rows: Sequence[str]) -> Answer:
        read = read_turn(taken.turn, sampled.finish, exchange.ask)
        names = {f"call_{row.replace('/', '_')}": row for row in rows}
        calls = tuple(
            ToldCall(call_id=name, tool=call.tool, arguments=call.arguments)
            for name, call in zip(names, read.calls, strict=True)
        )
        told = Told(text=read.text, reasoning=read.reasoning, calls=calls)
        self._history.tell(taken, told, names, self._clock.monotonic())
        if exchange.ask.num_answers == 1:
            said = exchange.ask.messages[exchange.ask.num_instructions :]
            self.remembered[f"resp_{exchange.name}"] = (*said, told)
        finish = "length" if sampled.finish == "length" else "stop"
        return Answer(
            told=told,
            finish="calls" if calls else "stop_string" if read.stop_string is not None else finish,
            stop_string=read.stop_string,
            token_ids=taken.turn.token_ids,
            behavior_logprobs=logprobs(np.concatenate([run.behavior_logprobs for run in sampled.runs])),
            num_prompt_tokens=exchange.num_prompt_tokens,
            num_reasoning_tokens=sum(
                span.token_end - span.token_start for span in taken.turn.spans if span.kind == "reasoning"
            ),
        )

    def _end_by_time(self, what: str) -> None:
        try:
            self.time.end(what)
        except EpisodeEndedError as error:
            self.end(error.reason, error.cause)

    def report_outcome(self, reward: float, components: Mapping[str, float], *, is_over: bool) -> None:
        """Note what the agent reports of the whole episode; the last report stands."""
        named = dict(sorted(components.items()))
        outcome = {"reward": reward, "components": named, "is_over": is_over}
        self._artifacts[OUTCOME] = canonical_json(outcome).encode()

    def report_turn(self, response_id: str, choice: int, reward: NamedValue, face: AgentFace) -> None:
        """Note what the agent reports of one turn; the last report of a name stands.

        Raises:
            ApiError: 404 where no such turn was told.
        """
        exchange = self._exchanges.get(response_id.removeprefix("chatcmpl-").removeprefix("resp_").removeprefix("msg_"))
        taken = None if exchange is None or choice >= len(exchange.drawings) else exchange.drawings[choice].taken
        if taken is None:
            message = f"This episode gave no answer {response_id[:80]!r} with choice {choice}."
            raise ApiError(404, message, param="response_id", code="response_not_found")
        last = taken.segments[-1]
        self._rewards[last.segment, reward.name] = Verdict(
            trajectory_id=self.name,
            verifier=f"{face.name}/{reward.name}",
            revision=face.revision,
            scope="turn",
            outcome=reward.value,
            components=(reward,),
            span=Span(segment=last.segment, token_start=0, token_end=last.num_tokens),
        )

    def keep(self, artifacts: Mapping[str, bytes]) -> None:
        """Keep what the agent left for the verifiers."""
        self._artifacts.update(artifacts)

    async def release(self) -> None:
        """Give the engine's sessions back; an engine that fails at it is lost anyway, and its own requests say so."""
        for session in sorted(self._sessions):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(GRACE_S):
                    await self._engine.release(session)

    def trajectory(self, face: AgentFace) -> Trajectory:
        """What the episode came to, once it has ended.

        Args:
            face: the agent, in the place of an environment.
        """
        spec, reason, cause = self.spec, self._reason, self._cause
        assert reason is not None
        if self.num_turns == 0 and reason is TerminalReason.CONTEXT_LIMIT and self._refused_prompt is not None:
            self._history.write_prompt(self._refused_prompt, 0)
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
            artifacts={**self._artifacts, REPORT: self._report()},
            turn_rewards=tuple(self._rewards[key] for key in sorted(self._rewards)),
            started_at=self.time.started_at,
            ended_at=ended_at,
            queue_s=spec.queue_s,
            sampling_s=self._sampling_s,
            tools_s=max(0.0, whole_s - self._sampling_s),
        )

    def _report(self) -> bytes:
        return canonical_json(
            {
                "requests": self._num_requests,
                "refused": self._refused,
                "cancelled": self._cancelled,
                "overruled": self._overruled,
            }
        ).encode()


def _failed() -> ApiError:
    return ApiError(500, "The server had an error while processing your request.", code="server_error")
