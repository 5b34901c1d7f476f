"""What the agent is told of a turn: text, reasoning and calls; whole, or as far as no later token can change it.

    tokens so far ──parse──► what is certain ──► deltas          all tokens ──parse──► what was said

The deltas of a turn, put together, are the text of the whole.
"""

from dataclasses import dataclass, field

from rollwright.record import Finish, Ids
from rollwright.rendering import CallGrammar, ParsedCall, ParsedTurn, Renderer
from rollwright.rollout.gateway.asked import Ask, Told

__all__ = ["Delta", "Reading", "Teller", "read_turn"]

LONGEST_TAG = 16
"""Characters of a tag of reasoning that may be under way, from its `<` on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What is new."""

    reasoning: str = ""
    text: str = ""
    first_token: int
    """Tokens from here to `end_token` were drawn for it."""
    end_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A turn, as it is told."""

    text: str
    reasoning: str | None
    calls: tuple[ParsedCall, ...]
    stop_string: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Teller:
    """Tells one turn, in one go or in several."""

    renderer: Renderer
    ask: Ask
    _reasoning: str = field(default="", init=False)
    _text: str = field(default="", init=False)
    _num_tokens: int = field(default=0, init=False)

    def go_on(self, token_ids: Ids) -> Delta:
        """What is certain by now and was not told yet.

        Args:
            token_ids: all that was drawn so far.
        """
        turn = self.renderer.parse(token_ids)
        has_tags = self.renderer.report.has_reasoning
        reasoning, text = turn.reasoning or "", ""
        if turn.is_reasoning_open:
            reasoning = _before_tag(reasoning)
        else:
            text = _certain(turn.visible, self.ask, self.renderer.grammar)
            text = _before_tag(text) if has_tags else text
        return self._told(reasoning, text, len(token_ids))

    def end(self, told: Told, num_tokens: int) -> Delta:
        """What is left of a whole turn of so many tokens."""
        return self._told(told.reasoning or "", told.text, num_tokens)

    def _told(self, reasoning: str, text: str, num_tokens: int) -> Delta:
        delta = Delta(
            reasoning=_rest(self._reasoning, reasoning),
            text=_rest(self._text, text),
            first_token=self._num_tokens,
            end_token=num_tokens,
        )
        self._reasoning += delta.reasoning
        self._text += delta.text
        self._num_tokens = num_tokens
        return delta


def _rest(told: str, whole: str) -> str:
    """What is to be told yet; all of it, where a second end of reasoning has made reasoning of what was told."""
    if whole.startswith(told):
        return whole[len(told) :]
    return "" if told.startswith(whole) else whole


def read_turn(turn: ParsedTurn, finish: Finish | None, ask: Ask) -> Reading:
    """A whole turn as it is told, however it was asked for."""
    calls = turn.parsed_calls if ask.calls != "text" else ()
    text = _beside(turn, calls) if calls else turn.visible
    stop_string: str | None = None
    if finish == "stop_string":
        found = min(((text.find(stop), stop) for stop in ask.stops if stop in text), default=None)
        if found is not None:
            text, stop_string = text[: found[0]], found[1]
    return Reading(text=text, reasoning=turn.reasoning, calls=calls, stop_string=stop_string)


def _beside(turn: ParsedTurn, calls: tuple[ParsedCall, ...]) -> str:
    """The visible text without the calls that were read; one that could not be read stays in it."""
    if len(calls) == len(turn.calls) or "\ufffd" in turn.visible:
        return turn.answer.rstrip()
    data, kept, done = turn.visible.encode(), b"", 0
    for call in calls:
        kept += data[done : max(done, call.start)]
        done = max(done, call.end)
    return (kept + data[done:]).decode(errors="replace").rstrip()


def _certain(visible: str, ask: Ask, grammar: CallGrammar) -> str:
    """The beginning of a visible text that stays what it is, whatever is drawn behind it."""
    text = visible.rstrip("\ufffd")
    for stop in ask.stops:
        text = _before(text, stop)
    if ask.calls == "text":
        return text
    if not grammar.tags and text.lstrip().startswith("{"):
        return ""
    for tag in grammar.tags:
        text = _before(text, tag)
    return text.rstrip()


def _before(text: str, mark: str) -> str:
    """The text up to a mark, or up to what may become one."""
    at = text.find(mark)
    if at >= 0:
        return text[:at]
    for length in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:length]):
            return text[:-length]
    return text


def _before_tag(text: str) -> str:
    at = text.rfind("<", max(0, len(text) - LONGEST_TAG))
    return (text if at < 0 else text[:at]).rstrip()
