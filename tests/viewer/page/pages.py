"""A client of the page without a browser, and what its answers are read with."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from starlette.testclient import TestClient

from rollwright.viewer.page.app import make_app
from rollwright.viewer.page.guard import Access
from rollwright.viewer.page.shelf import Shelf

LOCAL = Access(hosts=frozenset(), token=None)
OF_A_RUN = (
    "",
    "/time",
    "/curves",
    "/curve?curve=held-out-success",
    "/curve?curve=metric:reward/total",
    "/episodes",
    "/episode/t000000-00-0",
    "/ledger",
    "/ledger?state=trained",
    "/steps",
    "/step/1",
    "/gates",
    "/events",
    "/manifest",
)
"""Addresses of the pages of a run, below `/r/RUN`."""


def client_of(paths: Sequence[Path], roots: Sequence[Path] = (), access: Access = LOCAL) -> TestClient:
    return TestClient(
        make_app(Shelf(paths, roots), access),
        base_url="http://localhost",
        raise_server_exceptions=False,
        follow_redirects=False,
    )


def slug_of(client: TestClient) -> str:
    [slug, *_] = re.findall(r'href="/r/([^"/?]+)"', client.get("/").text)
    return slug


class Seen(HTMLParser):
    """What a browser would make of an answer: tags, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def links(self) -> list[str]:
        return [a["href"] for tag, a in self.tags if tag == "a" and "href" in a]
