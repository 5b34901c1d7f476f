"""The page as a server of one process: where it listens, who may read it, how it ends."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from rollwright.viewer.page.app import make_app
from rollwright.viewer.page.errors import PageError
from rollwright.viewer.page.guard import Access, is_loopback, new_token
from rollwright.viewer.page.shelf import Shelf

__all__ = ["Served", "serve"]

_GRACE_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A page that is being served."""

    address: str
    """To open; with the token where one is demanded."""
    is_local: bool
    """True where only this machine reaches it."""


def serve(
    paths: Sequence[Path], roots: Sequence[Path], *, host: str, port: int, begun: Callable[[Served], None]
) -> None:
    """Serve until the process is told to stop.

    Args:
        paths: run folders.
        roots: folders below which runs are looked for.
        host: name or address to listen at; beyond loopback a token is demanded of every visitor.
        port: 0 takes a free one.
        begun: told once the page can be opened.

    Raises:
        PageError: when it cannot listen there.
    """
    is_local = is_loopback(host)
    token = None if is_local else new_token()
    listening = _listen(host, port)
    bound = int(listening.getsockname()[1])
    access = Access(hosts=frozenset(_names(host)), token=token)
    config = uvicorn.Config(
        make_app(Shelf(paths, roots), access),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
    )
    begun(Served(address=_address(host, bound, token), is_local=is_local))
    with listening, suppress(KeyboardInterrupt):  # it is how a person ends it
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(place)
            listening.listen()  # before the address is told: who opens it at once waits, and is not refused
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        raise PageError(
            f"the page cannot listen at {host} port {port}: {error}. Give another --port, or 0 for a free one."
        ) from error
    return listening


def _names(host: str) -> set[str]:
    """How the page is asked for, besides by loopback names and by addresses."""
    return set() if is_loopback(host) else {host.lower(), socket.gethostname().lower()}


def _address(host: str, port: int, token: str | None) -> str:
    try:
        address = ip_address(host)
        name = socket.gethostname() if address.is_unspecified else f"[{host}]" if address.version == 6 else host
    except ValueError:
        name = host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
