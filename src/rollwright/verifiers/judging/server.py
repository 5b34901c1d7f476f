"""A judge behind an OpenAI-compatible server."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httpx2

from rollwright.record import Message, digest
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.judging.client import JudgeReply, JudgeUnavailableError

__all__ = ["JudgePrice", "ServerJudge", "server_judge"]

_REVISION = 1
_LONGEST_COMPLAINT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrice:
    """What a million tokens cost."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJudge:
    """Asks `POST {url}/chat/completions`; made by `server_judge`."""

    url: str
    """Up to and without `/chat/completions`."""
    model: str
    max_tokens: int
    temperature: float
    seed: int
    key: str = field(repr=False)
    """Empty: none is sent. No part of the revision, and never stored."""
    price: JudgePrice | None
    certificates: ssl.SSLContext = field(repr=False)

    @property
    def revision(self) -> str:
        """Of the model's name and its decoding; the server's address and its key change no verdict."""
        return digest([_REVISION, "server", self.model, self.max_tokens, self.temperature, self.seed])[:16]

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """One request; whoever asks bounds its time."""
        asked = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.text} for m in messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            # A client of its own: connections belong to one event loop, and verifiers are called from several.
            async with httpx2.AsyncClient(verify=self.certificates, timeout=None, trust_env=False) as client:
                response = await client.post(f"{self.url}/chat/completions", json=asked, headers=headers)
        except httpx2.HTTPError as error:
            raise JudgeUnavailableError(f"{self._place}: {type(error).__name__}: {error}") from error
        if not response.is_success:
            raise JudgeUnavailableError(
                f"{self._place} answered {response.status_code}: {response.text[:_LONGEST_COMPLAINT]}"
            )
        try:
            return self._reply(cast("object", response.json()))
        except (ValueError, LookupError, TypeError) as error:
            raise JudgeUnavailableError(
                f"{self._place} answered with something else than a chat completion: "
                f"{response.text[:_LONGEST_COMPLAINT]}"
            ) from error

    @property
    def _place(self) -> str:
        """The address for people and records: without user, password and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _reply(self, answer: object) -> JudgeReply:
        said = cast("Mapping[str, list[Mapping[str, Mapping[str, object]]]]", answer)
        text = said["choices"][0]["message"]["content"]
        if not isinstance(text, str):
            raise TypeError("the content is no text")
        return JudgeReply(text=text, cost=self._cost(cast("Mapping[str, object]", answer)))

    def _cost(self, answer: Mapping[str, object]) -> float | None:
        if self.price is None:
            return None
        usage = cast("Mapping[str, int]", answer["usage"])
        dear = usage["prompt_tokens"] * self.price.prompt + usage["completion_tokens"] * self.price.completion
        return dear / 1e6


def server_judge(
    url: str,
    model: str,
    *,
    max_tokens: int = 1024,
    temperature: float = 0.0,
    key: str = "",
    price: JudgePrice | None = None,
) -> ServerJudge:
    """A judge behind a server.

    Args:
        url: `http://host:port/v1` or the like.
        model: as the server names it.
        max_tokens: of a reply.
        temperature: 0 is greedy.
        key: sent as a bearer token; empty sends none.
        price: for the cost of each verdict; the server must then tell its usage.

    Raises:
        VerifierSetupError: for an address that is none.
    """
    if not url.startswith(("http://", "https://")):
        raise VerifierSetupError(f"{url!r} is no address of a server; it begins with http:// or https://")
    # Trusted certificates take time to load; a plain connection looks at none.
    is_plain = url.startswith("http://")
    certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else ssl.create_default_context()
    return ServerJudge(
        url=url.rstrip("/").removesuffix("/chat/completions"),
        model=model,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=0,
        key=key,
        price=price,
        certificates=certificates,
    )
