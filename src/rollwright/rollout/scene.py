"""The actors of an episode and their contexts: what is said is put behind them, turns are written into them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.record import EnvironmentBrokenError, Message, Observation, Origin, Segment, ToolResult
from rollwright.rendering import ParsedTurn, Renderer, Said
from rollwright.rollout.book import Book, Context
from rollwright.rollout.calls import CallBook
from rollwright.rollout.sampling import SampledTurn
from rollwright.rollout.spec import EpisodeSpec

__all__ = ["Actor", "Scene"]


@dataclass(slots=True, eq=False)
class Actor:
    """One actor, with the turn that it takes or has taken last."""

    context: Context
    turn: int
    """Its number in the episode."""
    parsed: ParsedTurn | None = None
    """The turn as taken, until something follows it."""
    results: tuple[ToolResult, ...] = ()
    """Of the turn's calls, not shown yet."""


class Scene:
    """Turns observations into contexts and sampled turns into segments."""

    def __init__(self, spec: EpisodeSpec, renderer: Renderer, policies: Mapping[str, str], calls: CallBook) -> None:
        self._spec = spec
        self._renderer = renderer
        self._policies = policies
        self._calls = calls
        self._book = Book()
        self._actors: dict[str, Actor] = {}
        self.tools: Mapping[str, str] = {}
        self.num_turns = 0
        """Opened so far."""
        self.num_sampled = 0
        """Tokens of all turns."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All that was written."""
        return self._book.segments

    def observe(self, observation: Observation) -> Actor:
        """Put what is said behind the actor's context, or open one.

        Returns:
            The actor, whose turn is open.

        Raises:
            EnvironmentBrokenError: for an actor that the environment does not have, or whose turn is open already.
        """
        name = observation.actor
        if name not in self._policies:
            known = ", ".join(self._policies)
            raise EnvironmentBrokenError(f"an observation is for actor {name!r}; the environment has {known}")
        number = self.num_turns
        self.num_turns += 1
        actor = self._actors.get(name)
        if actor is None or observation.is_fresh_context:
            actor = self._actors[name] = self._open(observation, number)
            return actor
        if actor.parsed is None:
            raise EnvironmentBrokenError(f"two turns of actor {name!r} were opened at once in one context")
        self._continue(actor, actor.parsed, observation, number)
        actor.parsed, actor.results, actor.turn = None, (), number
        return actor

    def write(self, actor: Actor, sampled: SampledTurn) -> ParsedTurn:
        """Write the segments of a turn. One that stopped with calls that parsed has the finish `tool_call`."""
        parsed = self._renderer.parse(sampled.token_ids)
        finish: str | None = sampled.finish
        if sampled.finish in ("stop_token", "stop_string") and parsed.parsed_calls:
            finish = "tool_call"
        self._book.write_turn(actor.context, actor.turn, sampled, self._spec, parsed.spans, finish)
        self.num_sampled += sampled.num_tokens
        actor.parsed = parsed
        return parsed

    def _open(self, observation: Observation, number: int) -> Actor:
        is_first = self.num_sampled == 0 and observation.spawned_by is None
        origin: Origin = "task" if is_first else "environment"
        rendered = self._renderer.open(observation.messages, self.tools, origin=origin)
        policy = self._policies[observation.actor]
        context = self._book.open_context(observation.actor, policy, rendered.conversation)
        self._book.write_said(
            context, rendered, number, spawned_by=observation.spawned_by, state_hash=observation.state_hash
        )
        return Actor(context=context, turn=number)

    def _continue(self, actor: Actor, parsed: ParsedTurn, observation: Observation, number: int) -> None:
        said = [*self._results(actor), *(_said(message) for message in observation.messages)]
        num_known = len(actor.context.conversation.entries) + 1
        rendered = self._renderer.extend(actor.context.conversation, parsed, said)
        if rendered.rewrites is not None:
            # History is written anew: a context of its own, in which copies stand for what was said and done.
            places = actor.context.places
            actor.context = self._book.open_context(observation.actor, actor.context.policy, rendered.conversation)
            actor.context.places.update(places)
        first = self._book.next_segment
        self._book.write_said(actor.context, rendered, number, num_known=num_known, state_hash=observation.state_hash)
        self._note_answers(actor.turn, self._book.segments[first:])

    def _results(self, actor: Actor) -> list[Said]:
        tools = {row.call_id: row.tool for row in self._calls.rows}
        return [
            Said(message=Message(role="tool", text=r.text), origin="tool", call_id=r.call_id, tool=tools[r.call_id])
            for r in actor.results
        ]

    def _note_answers(self, turn: int, segments: Sequence[Segment]) -> None:
        """Say in the rows of calls which segments answered them."""
        for segment in segments:
            if segment.copied_from is not None or segment.origin == "template":
                continue
            if segment.call_id is not None:
                self._calls.answer_in(segment.call_id, segment.segment)
            else:
                self._calls.answer_malformed_in(turn, segment.segment)


def _said(message: Message) -> Said:
    """A message between turns: a tool's, a user's, or the environment's own."""
    origin: Origin = "environment"
    if message.role == "tool":
        origin = "tool"
    elif message.role == "user":
        origin = "user"
    return Said(message=message, origin=origin)
