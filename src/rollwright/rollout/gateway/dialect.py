"""What every API does in its own words: read a request, write an answer, write it piece by piece, refuse."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rollwright.record import Ids, Logprobs
from rollwright.rendering import Renderer
from rollwright.rollout.gateway.asked import Answer, Ask, Heard, Told
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.fields import Fields
from rollwright.rollout.gateway.telling import Delta

__all__ = [
    "Dialect",
    "Json",
    "Memory",
    "Reply",
    "Script",
    "definition_of",
    "event",
    "logprob_items",
    "named_event",
    "without_stop",
]

Json = Mapping[str, object]
Memory = Mapping[str, tuple[Heard | Told, ...]]
"""Conversations by the id of the response that they came to."""


class Reply(Protocol):
    """What an answer says of its request: an `Exchange`."""

    @property
    def ask(self) -> Ask:
        """The request."""
        ...

    @property
    def name(self) -> str:
        """Unique in the run."""
        ...

    @property
    def created(self) -> int:
        """Seconds since 1970."""
        ...

    @property
    def num_prompt_tokens(self) -> int:
        """That all of its turns were drawn behind."""
        ...


class Script(Protocol):
    """Writes one streamed answer; each method gives the bytes of whole events."""

    def begin(self) -> Iterator[bytes]:
        """Before anything was drawn."""
        ...

    def tell(self, choice: int, delta: Delta, token_ids: Ids, scores: Logprobs) -> Iterator[bytes]:
        """Something new in a turn, with the tokens that were drawn for it."""
        ...

    def finish(self, choice: int, answer: Answer) -> Iterator[bytes]:
        """All of a turn's text was told: its calls, and how it ended."""
        ...

    def end(self, answers: Sequence[Answer]) -> Iterator[bytes]:
        """After all turns."""
        ...

    def fail(self, error: ApiError) -> Iterator[bytes]:
        """In the place of an end."""
        ...


class Dialect(Protocol):
    """One API."""

    def read(self, body: Fields, memory: Memory) -> Ask:
        """Read a request.

        Raises:
            ApiError: 400 for what the API, or the model behind it, does not take.
        """
        ...

    def write(self, reply: Reply, answers: Sequence[Answer], renderer: Renderer) -> Json:
        """A whole answer."""
        ...

    def script(self, reply: Reply, renderer: Renderer) -> Script:
        """A writer of a streamed one."""
        ...

    def id_of(self, reply: Reply) -> str:
        """The answer's id."""
        ...

    def refuse(self, error: ApiError) -> Json:
        """The body of an error."""
        ...


def definition_of(fields: Fields, schema: str) -> tuple[str, str]:
    """Name and definition of a function that the agent offers.

    Args:
        fields: with `name`, `description` and a schema of its parameters.
        schema: the field that the schema stands in.

    Returns:
        The definition as chat templates take it, the same from every API.
    """
    name = fields.text("name")
    if not name:
        raise fields.refused("name", "a function needs a name")
    function: dict[str, object] = {"name": name}
    description = fields.text_or_none("description")
    if description is not None:
        function["description"] = description
    parameters = fields.inner(schema)
    function["parameters"] = {"type": "object", "properties": {}} if parameters is None else fields.raw(schema)
    fields.skip("strict")
    return name, json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def logprob_items(renderer: Renderer, token_ids: Ids, scores: Logprobs) -> list[Json]:
    """One item a token, in the words of OpenAI; a token that is part of a character has its bytes alone."""
    items: list[Json] = []
    for token, score in zip(token_ids.tolist(), scores.tolist(), strict=True):
        text = renderer.decode([token])
        items.append({"token": text, "logprob": score, "bytes": list(text.encode()), "top_logprobs": []})
    return items


def without_stop(token_ids: Ids, scores: Logprobs, renderer: Renderer) -> tuple[Ids, Logprobs]:
    """Tokens that say something: all but the one that ended the turn."""
    if len(token_ids) and int(token_ids[-1]) in renderer.stop_token_ids:
        return token_ids[:-1], scores[:-1]
    return token_ids, scores


def event(data: Json | str) -> bytes:
    """A server-sent event of data alone."""
    written = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {written}\n\n".encode()


def named_event(data: Json) -> bytes:
    """A server-sent event that has its type for a name."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
