"""Who may read the page: requests that only read (GET), for a host that is ours, with the token where one is demanded.

request ─► GET? ─► Host ours? ─► token right? ─► page, with the headers that keep it to itself
"""

import hmac
import ipaddress
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "Access", "Guard", "is_loopback", "new_token"]

COOKIE: Final = "rollwright_token"
_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; img-src 'self'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), interest-cohort=()",
}
_NAMES: Final = ("localhost",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may read."""

    hosts: frozenset[str]
    """Names by which the page is asked for, in lower case, without port; loopback names and addresses always count."""
    token: str | None
    """Demanded of everyone; None on loopback."""

    def allows_host(self, header: str) -> bool:
        """True for a Host header that is ours: another name that resolves to us is somebody else's page."""
        name = _without_port(header.strip().lower())
        if name in _NAMES or name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A name can be rebound, an address cannot; beyond loopback the token decides.
        return address.is_loopback or self.token is not None

    def allows_token(self, given: str | None) -> bool:
        """Compared in constant time."""
        if self.token is None:
            return True
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())


def new_token() -> str:
    """Long enough that nobody guesses it."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """True for an address or name that only this machine reaches."""
    if host.lower() in _NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Stands before every page, those that do not exist included."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket, which no page opens
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(message)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] != "GET":
            return PlainTextResponse("This page only reads; ask with GET.\n", 405, {"Allow": "GET"})
        if len(headers.getlist("host")) != 1 or not self._access.allows_host(headers["host"]):
            return PlainTextResponse(
                "This is not the host that the page is served for; open the address that `rollwright view` printed.\n",
                421,
            )
        if self._access.token is None:
            return None
        given = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
        if "token" in given:
            return self._enter(scope, given)
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip() or None
        if self._access.allows_token(_cookie(headers.get("cookie", ""))) or (
            bearer is not None and self._access.allows_token(bearer)
        ):
            return None
        return _unknown_visitor()

    def _enter(self, scope: Scope, given: dict[str, str]) -> Response:
        """Turn the token of an address into a cookie, and the address into one without it."""
        if not self._access.allows_token(given.pop("token")):
            return _unknown_visitor()
        # `//evil` would be another host.
        path = "/" + str(scope["path"]).lstrip("/")
        response = RedirectResponse(path + (f"?{urlencode(given)}" if given else ""), 303)
        response.set_cookie(COOKIE, self._access.token or "", httponly=True, samesite="strict", path="/")
        return response


def _unknown_visitor() -> Response:
    return PlainTextResponse(
        "This page asks for its token; open the address that `rollwright view` printed, token included.\n",
        401,
        {"WWW-Authenticate": 'Bearer realm="rollwright"'},
    )


def _protect(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(raw=message["headers"])
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


def _cookie(header: str) -> str | None:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
