"""The page as a web application: addresses to pages, errors to sentences.

Guard ─► FastAPI ─► routes (runs, one run, its episodes) ─► Site ─► templates
"""

import logging
from importlib.resources import files
from typing import Final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from rollwright.evidence import EvidenceError, NotARunError
from rollwright.viewer.errors import ViewerError
from rollwright.viewer.page.errors import NotFoundError, PageError
from rollwright.viewer.page.guard import Access, Guard
from rollwright.viewer.page.routes_episodes import episode_routes
from rollwright.viewer.page.routes_run import run_routes
from rollwright.viewer.page.routes_runs import runs_routes
from rollwright.viewer.page.shelf import Shelf
from rollwright.viewer.page.site import ASSETS, Site, make_site

__all__ = ["make_app"]

_LOG: Final = logging.getLogger("rollwright.viewer")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_app(shelf: Shelf, access: Access) -> ASGIApp:
    """The whole page, behind its guard."""
    site = make_site(shelf)
    app = FastAPI(title="rollwright", docs_url=None, redoc_url=None, openapi_url=None)
    for router in (runs_routes(site), run_routes(site), episode_routes(site)):
        app.include_router(router)
    _serve_assets(app)
    _say_errors(app, site)
    return Guard(app, access)


def _serve_assets(app: FastAPI) -> None:
    """The files that the pages name, from a closed list: no address reaches another."""
    folder = files("rollwright.viewer.page") / "static"
    held = {name: folder.joinpath(*name.split("/")).read_bytes() for name in ASSETS}

    @app.get("/static/{name:path}")
    def asset(name: str) -> Response:
        if name not in held:
            raise NotFoundError("there is no such file.")
        kind = _TYPES[name[name.rindex(".") :]]
        return Response(held[name], media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})


def _say_errors(app: FastAPI, site: Site) -> None:
    """No visitor ever reads a traceback; it goes to the log."""

    def said(request: Request, status: int, title: str, text: str) -> Response:
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": text}, status)
        return site.render("error.html", status, title=title, text=text)

    async def not_found(request: Request, error: Exception) -> Response:
        return said(request, 404, "Not here", str(error))

    async def unreadable(request: Request, error: Exception) -> Response:
        if isinstance(error, NotARunError):
            return said(request, 410, "No run here any longer", str(error))
        return said(request, 503, "This run cannot be read now", str(error))

    async def refused(request: Request, error: Exception) -> Response:
        return said(request, 400, "That cannot be shown", str(error))

    async def of_the_server(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for it"
        text = "there is no page at this address." if error.status_code == 404 else str(error.detail)
        return said(request, error.status_code, "Not here", text)

    async def ours(request: Request, error: Exception) -> Response:
        _LOG.error("a bug in rollwright, at %s", request.url.path, exc_info=error)
        return said(
            request,
            500,
            "A bug in rollwright",
            f"{type(error).__name__} while this page was made; what `rollwright view` printed says where.",
        )

    app.add_exception_handler(NotFoundError, not_found)
    app.add_exception_handler(EvidenceError, unreadable)
    app.add_exception_handler(PageError, refused)
    app.add_exception_handler(ViewerError, refused)
    app.add_exception_handler(HTTPException, of_the_server)
    app.add_exception_handler(Exception, ours)
