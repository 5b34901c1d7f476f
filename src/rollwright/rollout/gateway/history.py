"""What was said and told, as a tree: a request finds its place in it, and what is known is not rendered again.

    messages ──► the turns known, as far as they go ──► what is new, rendered behind their tokens ──► Prompt
    Prompt + what was sampled ──► Taken ──► segments

A turn is known by what the agent was told of it: its text, white space at its ends apart, and its calls. Another text
in its place is the agent's own: it is rendered as said, behind the last turn that is known, in a branch. Where nothing
stands as it was (other instructions, other tools, a summary for a history), a context begins; turns of the policy that
stand in it later are put in by their tokens, as replayed. Segments are written once a turn is drawn behind them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from rollwright.record import Ids, Message, Origin, Segment, ids
from rollwright.rendering import ParsedTurn, Rendered, Renderer, RenderingError, Said
from rollwright.rollout.book import Book, Context
from rollwright.rollout.gateway.asked import Ask, Heard, Told
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.reported_calls import ReportedCalls
from rollwright.rollout.sampling import SampledTurn
from rollwright.rollout.spec import EpisodeSpec

__all__ = ["History", "Prompt", "Taken"]

ACTOR = "agent"
Key = tuple[object, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Taken:
    """A turn in its place: sampled there, or put there again by its tokens."""

    prompt: "Prompt"
    turn: ParsedTurn
    told: Told
    rows: Mapping[str, str]
    """Call as the agent has it to its row."""
    segments: tuple[Segment, ...]
    """Where it was sampled."""
    number: int
    """Of its context."""
    told_at: float
    context: Context | None = None
    """As it stands behind the turn; None: a replayed turn that nothing was drawn behind yet."""
    prompts: "dict[Key, Prompt]" = field(default_factory=lambda: {})
    heir: "Prompt | None" = None
    """The one of them that goes on in the turn's own context."""


@dataclass(slots=True, kw_only=True, eq=False)
class Prompt:
    """A place at which turns are drawn."""

    parent: Taken | None
    rendered: Rendered
    num_known: int
    """Entries of the conversation that stood before."""
    token_ids: Ids
    """All that the engine sees."""
    heard_at: float
    results: tuple[Heard, ...]
    """Of tools, among what is said here, each with its row as id."""
    number: int | None = None
    """Of the context that its segments are of, and the first turn drawn here; None: none was yet."""
    context: Context | None = None
    """As it stands before a turn, once that is written."""
    turns: list[Taken] = field(default_factory=list[Taken])
    is_held: bool = False
    """True where a turn in flight, or a taken one, goes on in the prompt's own context."""

    @property
    def rewrites(self) -> bool:
        """True where the template changed what stood before."""
        return self.rendered.rewrites is not None


class History:
    """The tree of one episode, and the segments that it comes to."""

    def __init__(self, spec: EpisodeSpec, renderer: Renderer, policy: str, calls: ReportedCalls) -> None:
        self._spec = spec
        self._renderer = renderer
        self._policy = policy
        self._calls = calls
        self._book = Book()
        self._roots: dict[Key, Prompt] = {}
        self._taken: dict[Key, Taken] = {}
        self.num_turns = 0
        """Written."""
        self.tools: Mapping[str, str] | None = None
        """Those of the first prompt."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All that was written."""
        return self._book.segments

    def place(self, ask: Ask, now: float) -> Prompt:
        """Find, or render, the place of a request.

        Args:
            ask: the whole conversation, as APIs without a memory send it.
            now: in the clock's seconds.

        Raises:
            ApiError: 400 where the template or the tools cannot be rendered, or a tool's message answers no call.
        """
        walk = _Walk(self, ask, now)
        try:
            return walk.prompt()
        except RenderingError as error:
            raise ApiError(400, f"The messages cannot be rendered for this model: {error}", param="messages") from error

    def number_for(self, prompt: Prompt) -> int:
        """The context of a turn that is to be drawn: the prompt's own for one, a new one for each other."""
        number = self._number_of(prompt)
        if prompt.is_held:
            return self._book.number_context()
        prompt.is_held = True
        return number

    def _number_of(self, prompt: Prompt) -> int:
        """The prompt's own context: that of the turn before it, or a new one."""
        if prompt.number is None:
            parent = prompt.parent
            if parent is None or prompt.rewrites or parent.heir is not None:
                prompt.number = self._book.number_context()
            else:
                parent.heir, prompt.number = prompt, parent.number
        return prompt.number

    def give_back(self, prompt: Prompt, number: int) -> None:
        """Nothing was drawn: whoever asks again goes on in the prompt's own context, and draws the same."""
        if number == prompt.number:
            prompt.is_held = False

    def write(self, prompt: Prompt, number: int, sampled: SampledTurn, ask: Ask) -> Taken:
        """Write a sampled turn, and before it what it was drawn behind.

        Args:
            prompt: where it was drawn.
            number: of its context, from `number_for`.
            sampled: what was drawn.
            ask: says whether its calls are read.

        Returns:
            The turn, not told to anybody yet.
        """
        turn = self.num_turns
        self.num_turns += 1
        self.write_prompt(prompt, turn)
        assert prompt.context is not None
        context = prompt.context.copy(number)
        parsed = self._renderer.parse(sampled.token_ids)
        finish: str | None = sampled.finish
        if ask.calls != "text" and sampled.finish in ("stop_token", "stop_string") and parsed.parsed_calls:
            finish = "tool_call"
        first = self._book.next_segment
        self._book.write_turn(context, turn, sampled, self._spec, parsed.spans, finish)
        taken = Taken(
            prompt=prompt,
            turn=parsed,
            told=Told(text=parsed.visible),
            rows={},
            segments=self._book.segments[first:],
            number=number,
            told_at=0.0,
            context=context,
        )
        prompt.turns.append(taken)
        return taken

    def tell(self, taken: Taken, told: Told, rows: Mapping[str, str], now: float) -> None:
        """Note what the agent was told, by which it will be known."""
        taken.told, taken.rows, taken.told_at = told, rows, now
        self._taken[_key_of_told(told)] = taken

    def write_prompt(self, prompt: Prompt, turn: int) -> None:
        """Write what a prompt says, and what stands before it, where that is not written yet."""
        if prompt.context is not None:
            return
        parent, rendered, number = prompt.parent, prompt.rendered, self._number_of(prompt)
        before = None if parent is None else self._context_behind(parent, turn)
        if before is None or prompt.rewrites:
            conversation = rendered.conversation
            context = Context(number=number, actor=ACTOR, policy=self._policy, conversation=conversation)
            context.places.update({} if before is None else before.places)
        else:
            context = before.copy(number)
        first = self._book.next_segment
        self._book.write_said(context, rendered, turn, num_known=prompt.num_known)
        prompt.context = context
        for result in prompt.results:
            told_at = parent.told_at if parent is not None else prompt.heard_at
            self._calls.report(result, max(0.0, prompt.heard_at - told_at))
        self._calls.note_answers(None if parent is None else parent.segments[-1].turn, self._book.segments[first:])

    def _context_behind(self, taken: Taken, turn: int) -> Context:
        """The context behind a turn; one that is replayed is written first."""
        if taken.context is None:
            self.write_prompt(taken.prompt, turn)
            assert taken.prompt.context is not None
            taken.context = taken.prompt.context.copy(taken.number)
            self._book.write_replayed(taken.context, turn, taken.segments)
        return taken.context

    # What the walk needs.

    def root(self, key: Key) -> Prompt | None:
        """The prompt of a first context that says exactly this."""
        return self._roots.get(key)

    def known(self, told: Told) -> Taken | None:
        """A turn that was told like this, anywhere in the episode."""
        return self._taken.get(_key_of_told(told))

    def open(self, key: Key, said: Sequence[Heard | Told], walk: "_Walk") -> Prompt:
        """Render the beginning of a context."""
        origin: Origin = "task" if self.num_turns == 0 else "environment"
        rendered = self._renderer.open([self._message(one) for one in said], walk.ask.tools, origin=origin)
        prompt = self._roots[key] = Prompt(
            parent=None,
            rendered=rendered,
            num_known=0,
            token_ids=_tokens(rendered),
            heard_at=walk.now,
            results=(),
        )
        self.tools = walk.ask.tools if self.tools is None else self.tools
        return prompt

    def extend(self, key: Key, parent: Taken, said: Sequence[Heard | Told], walk: "_Walk") -> Prompt:
        """Render what is said behind a turn."""
        conversation = parent.prompt.rendered.conversation
        rendered = self._renderer.extend(conversation, parent.turn, [self._said(one, walk) for one in said])
        tokens = _tokens(rendered)
        if rendered.rewrites is None:
            tokens = ids(np.concatenate([parent.prompt.token_ids, parent.turn.token_ids, tokens]))
        prompt = parent.prompts[key] = Prompt(
            parent=parent,
            rendered=rendered,
            num_known=len(conversation.entries) + 1,
            token_ids=tokens,
            heard_at=walk.now,
            results=tuple(
                replace(one, call_id=walk.rows[one.call_id])
                for one in said
                if isinstance(one, Heard) and one.call_id in walk.rows
            ),
        )
        return prompt

    def replay(self, prompt: Prompt, source: Taken) -> Taken:
        """Put a turn that is known from elsewhere behind a prompt."""
        number = self.number_for(prompt)
        taken = Taken(
            prompt=prompt,
            turn=source.turn,
            told=source.told,
            rows=source.rows,
            segments=source.segments,
            number=number,
            told_at=source.told_at,
        )
        prompt.turns.append(taken)
        return taken

    def _said(self, one: Heard | Told, walk: "_Walk") -> Said:
        origin: Origin = "environment"
        if isinstance(one, Heard) and one.role != "system":
            origin = one.role
        call = None if isinstance(one, Told) or one.call_id is None else one.call_id
        return Said(
            message=self._message(one),
            origin=origin,
            call_id=None if call is None else walk.rows.get(call),
            tool=None if call is None else walk.names[call],
        )

    def _message(self, one: Heard | Told) -> Message:
        if isinstance(one, Heard):
            return Message(role=one.role, text=one.text)
        if not one.calls:
            return Message(role="assistant", text=one.text)
        try:
            written = self._renderer.grammar.write([(call.tool, call.arguments) for call in one.calls])
        except ValueError as error:
            raise ApiError(400, f"The arguments of a call are no JSON: {error}", param="messages") from error
        return Message(role="assistant", text=one.text + written if one.text else written.lstrip("\n"))


class _Walk:
    """The way of one request through the tree."""

    def __init__(self, history: History, ask: Ask, now: float) -> None:
        self._history = history
        self.ask = ask
        self.now = now
        self.rows: dict[str, str] = {}
        """Calls of known turns on the way, as the agent names them, to their rows."""
        self.names: dict[str, str] = {}
        """All calls on the way, to their tools."""
        self._behind: Taken | None = None
        self._said: list[Heard | Told] = []

    def prompt(self) -> Prompt:
        """The place at the end of the messages."""
        for message in self.ask.messages:
            if isinstance(message, Heard):
                self._check_call(message)
                self._said.append(message)
                continue
            taken = self._turn(message)
            if taken is None:
                self._said.append(message)
                self.names.update((call.call_id, call.tool) for call in message.calls)
                continue
            for given, stored in zip(message.calls, taken.told.calls, strict=True):
                self.names[given.call_id] = given.tool
                self.rows[given.call_id] = taken.rows[stored.call_id]
            self._behind, self._said = taken, []
        return self._place()

    def _turn(self, told: Told) -> Taken | None:
        """The turn that the agent speaks of, in this place; replayed, where it was taken in another one."""
        prompt = self._find(self._key())
        here = [] if prompt is None else [taken for taken in prompt.turns if _is_same(taken.told, told)]
        if here:
            named = [call.call_id for call in told.calls]
            return next((t for t in here if [call.call_id for call in t.told.calls] == named), here[0])
        source = self._history.known(told)
        if source is None or not _is_same(source.told, told) or (self._behind is None and not self._said):
            return None
        return self._history.replay(self._place(), source)

    def _place(self) -> Prompt:
        key = self._key()
        found = self._find(key)
        if found is not None:
            return found
        if self._behind is None:
            return self._history.open(key, self._said, self)
        return self._history.extend(key, self._behind, self._said, self)

    def _find(self, key: Key) -> Prompt | None:
        return self._history.root(key) if self._behind is None else self._behind.prompts.get(key)

    def _key(self) -> Key:
        said = tuple(_key_of_heard(m, self.rows) if isinstance(m, Heard) else _key_of_told(m) for m in self._said)
        return said if self._behind is not None else (tuple(self.ask.tools.items()), said)

    def _check_call(self, message: Heard) -> None:
        if message.role == "tool" and message.call_id not in self.names:
            raise ApiError(
                400,
                "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                f"'tool_calls'; no call {str(message.call_id)[:80]!r} stands before it.",
                param="messages",
            )


def _tokens(rendered: Rendered) -> Ids:
    return ids(np.concatenate([piece.token_ids for piece in rendered.pieces]))


def _key_of_heard(heard: Heard, rows: Mapping[str, str]) -> Key:
    call = None if heard.call_id is None else rows.get(heard.call_id, heard.call_id)
    return (heard.role, heard.text, call, heard.is_error)


def _key_of_told(told: Told) -> Key:
    """What a turn is known by."""
    return ("assistant", told.text.strip(), tuple((call.tool, _canonical(call.arguments)) for call in told.calls))


def _is_same(known: Told, told: Told) -> bool:
    if known.reasoning and told.reasoning and known.reasoning.strip() != told.reasoning.strip():
        return False
    return _key_of_told(known) == _key_of_told(told)


def _canonical(arguments: str) -> str:
    """Clients write arguments again: equal ones are one."""
    try:
        return json.dumps(cast(object, json.loads(arguments)), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
