"""What every page is made with: the runs, the templates, and how an answer is rendered."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from rollwright.viewer.page import words
from rollwright.viewer.page.live_state import state_of
from rollwright.viewer.page.shelf import Shelf
from rollwright.viewer.page.text import clip, show_hidden

__all__ = ["ASSETS", "Site", "make_site", "run_address", "with_query"]

ASSETS = (
    "icon.svg",
    "theme.js",
    "page.css",
    "page.js",
    "curves.js",
    "tokens.js",
    "uplot/uPlot.iife.min.js",
    "uplot/uPlot.min.css",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Runs and templates."""

    shelf: Shelf
    environment: Environment

    def render(self, template: str, /, status: int = 200, **values: object) -> HTMLResponse:
        """A whole page."""
        return HTMLResponse(self.environment.get_template(template).render(values), status)


def make_site(shelf: Shelf) -> Site:
    """The templates with the filters and functions that they use."""
    environment = Environment(
        loader=PackageLoader("rollwright.viewer.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    filters = cast("dict[str, object]", environment.filters)
    filters.update(
        number=words.number,
        percent=words.percent,
        seconds=words.seconds,
        when=words.when,
        time_of=words.time_of,
        clip=clip,
    )
    shared = cast("dict[str, object]", environment.globals)
    shared.update(state_of=state_of, run_address=run_address, with_query=with_query, asset=_assets().__getitem__)
    return Site(shelf=shelf, environment=environment)


def run_address(slug: str, *parts: object, **query: object) -> str:
    """The address of a page of a run, each part quoted."""
    path = "/".join(quote(str(part), safe="") for part in (slug, *parts))
    return with_query(f"/r/{path}", query)


def with_query(path: str, query: Mapping[str, object]) -> str:
    """A path with those parameters that have a value."""
    given = [(k, v) for k, v in query.items() if v is not None and v != "" and v != []]
    return f"{path}?{urlencode(given, doseq=True, errors='replace')}" if given else path


def _finalize(value: object) -> object:
    """Every text that a template prints passes here, before it is escaped: nothing in it stays hidden."""
    if isinstance(value, Markup):
        return value
    return show_hidden(value) if isinstance(value, str) else value


def _assets() -> Mapping[str, str]:
    """Address of each static file, with its digest: a new version of rollwright is never shown with an old script."""
    folder = files("rollwright.viewer.page") / "static"
    return {
        name: f"/static/{name}?v={sha256(folder.joinpath(*name.split('/')).read_bytes()).hexdigest()[:12]}"
        for name in ASSETS
    }
