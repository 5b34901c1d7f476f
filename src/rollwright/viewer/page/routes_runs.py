"""Pages over several runs: the list, and their comparison."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from rollwright.evidence import EvidenceError
from rollwright.evidence.following import Look
from rollwright.viewer.page.charts import AXIS_NAMES, COMPARED, axis_of, drawn, plotted
from rollwright.viewer.page.comparison import compare_manifests, compare_results
from rollwright.viewer.page.errors import PageError
from rollwright.viewer.page.live_state import state_of
from rollwright.viewer.page.run_summary import RunSummary, summarize
from rollwright.viewer.page.shelf import ServedRun
from rollwright.viewer.page.site import Site

__all__ = ["runs_routes"]

_MOST_RUNS = 8
"""That are compared at once."""

Chosen = Annotated[list[str], Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A line of the list; a run that cannot be read says why."""

    run: ServedRun
    look: Look | None
    summary: RunSummary | None
    problem: str


def runs_routes(site: Site) -> APIRouter:
    """`/`, `/compare`, and what their scripts ask."""
    router = APIRouter()
    shelf = site.shelf

    @router.get("/")
    def runs() -> Response:
        listed = [_listed(run) for run in shelf.runs()]
        return site.render("runs.html", runs=listed, home=shelf.home, state=_state(listed))

    @router.get("/live.json")
    def live() -> Response:
        return JSONResponse({"state": _state([_looked(run) for run in shelf.runs()])})

    @router.get("/compare")
    def compare(run: Chosen = [], x: str = "step") -> Response:  # noqa: B006 - FastAPI reads the default, nobody changes it
        chosen = [shelf.run(slug) for slug in dict.fromkeys(run)][:_MOST_RUNS]
        if len(chosen) < 2:
            raise PageError("a comparison needs two runs or more; choose them in the list of runs.")
        looks = [one.look() for one in chosen]
        return site.render(
            "compare.html",
            runs=chosen,
            looks=looks,
            summaries=[summarize(look) for look in looks],
            fields=compare_manifests([look.manifest for look in looks]),
            results=compare_results(looks),
            curves=COMPARED,
            axes=AXIS_NAMES,
            axis=axis_of(x),
        )

    @router.get("/curve.json")
    def curve_numbers(curve: str, run: Chosen = [], x: str = "step") -> Response:  # noqa: B006 - as above
        named = [
            (one.name, one.numbers()) for one in (shelf.run(slug) for slug in list(dict.fromkeys(run))[:_MOST_RUNS])
        ]
        if not named:
            raise PageError("a curve is of a run; name one.")
        revision = " ".join(one.revision for _, one in named)
        return JSONResponse(plotted(drawn(named, curve, axis_of(x)), revision))

    return router


def _listed(run: ServedRun) -> ListedRun:
    try:
        look = run.look()
        return ListedRun(run=run, look=look, summary=summarize(look), problem="")
    except EvidenceError as error:
        return ListedRun(run=run, look=None, summary=None, problem=str(error))


def _looked(run: ServedRun) -> ListedRun:
    try:
        return ListedRun(run=run, look=run.look(), summary=None, problem="")
    except EvidenceError as error:
        return ListedRun(run=run, look=None, summary=None, problem=str(error))


def _state(listed: list[ListedRun]) -> str:
    return " ".join(f"{one.run.slug}:{state_of(one.look) if one.look else 'none'}" for one in listed)
