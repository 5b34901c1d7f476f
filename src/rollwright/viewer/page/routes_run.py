"""Pages of one run: overview, curves, time, ledger, steps, gates, events, manifest."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from rollwright.evidence import RunFolder, manifest_differences, writer_of
from rollwright.evidence.events import read_events
from rollwright.evidence.gates import read_gates
from rollwright.record.metrics import METRICS, metric_named
from rollwright.viewer.page.balance import STATES, balance_by_step, rules_of_slots, slots_of_task, slots_where
from rollwright.viewer.page.charts import AXIS_NAMES, PARTS, axis_of, drawn, entries_of
from rollwright.viewer.page.errors import PageError
from rollwright.viewer.page.live_state import state_of
from rollwright.viewer.page.manifest_view import sections_of
from rollwright.viewer.page.part_times import PART_STATES, read_times
from rollwright.viewer.page.run_summary import held_out, newest_metrics, summarize
from rollwright.viewer.page.site import Site
from rollwright.viewer.page.step_receipts import read_step

__all__ = ["run_routes"]

_EVENTS = 200
_STEPS = 100
_NEWEST_COMMITS = 3

Chosen = Annotated[list[str], Query()]


def run_routes(site: Site) -> APIRouter:
    """Everything below `/r/RUN` but episodes."""
    router = APIRouter(prefix="/r/{slug}")
    _add_overview(router, site)
    _add_curves(router, site)
    _add_ledger(router, site)
    _add_papers(router, site)
    return router


def _add_overview(router: APIRouter, site: Site) -> None:
    @router.get("")
    def overview(slug: str) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        return site.render(
            "overview.html",
            run=run,
            look=look,
            here="overview",
            summary=summarize(look),
            newest=newest_metrics(look),
            evaluations=held_out(look),
            steps=[c for c in look.commits if c.kind == "step"][-10:][::-1],
            gates=read_gates(look.path)[-5:][::-1],
        )

    @router.get("/live.json")
    def live(slug: str) -> Response:
        look = site.shelf.run(slug).look()
        return JSONResponse(
            {
                "state": state_of(look),
                "revision": look.revision,
                "step": look.last_step,
                "commits": len(look.commits),
                "abandoned": look.num_abandoned,
                "is_written": writer_of(look.path) is not None,
            }
        )

    @router.get("/time")
    def time(slug: str) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        return site.render("time.html", run=run, look=look, here="time", stages=read_times(look), states=PART_STATES)


def _add_curves(router: APIRouter, site: Site) -> None:
    @router.get("/curves")
    def curves(slug: str, x: str = "step", metric: Chosen = []) -> Response:  # noqa: B006 - FastAPI reads the default
        run = site.shelf.run(slug)
        look = run.look()
        names = look.ask(
            "SELECT name, any_value(unit) AS unit, count(DISTINCT labels) AS series FROM {metrics} GROUP BY name "
            "ORDER BY name",
            commits=look.holding("metrics")[-_NEWEST_COMMITS:],
        )
        return site.render(
            "curves.html",
            run=run,
            look=look,
            here="curves",
            parts_listed=PARTS,
            axes=AXIS_NAMES,
            axis=axis_of(x),
            chosen=list(dict.fromkeys(metric))[:20],
            names=[{**row, "entry": metric_named(row["name"])} for row in names],
            listed=METRICS,
        )

    @router.get("/curve")
    def curve(slug: str, curve: str, x: str = "step") -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        stated = run.numbers()
        figure = drawn([(run.name, stated)], curve, axis_of(x))
        return site.render(
            "curve.html",
            run=run,
            look=look,
            here="curves",
            curve=curve,
            figure=figure,
            entries=entries_of(figure, stated.numbers),
            axes=AXIS_NAMES,
            axis=axis_of(x),
        )


def _add_ledger(router: APIRouter, site: Site) -> None:
    @router.get("/ledger")
    def ledger(slug: str, state: str = "", rule: str = "") -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        if state and state not in STATES:
            raise PageError(f"there is no state {state!r}; there are {', '.join(STATES)}.")
        return site.render(
            "ledger.html",
            run=run,
            look=look,
            here="ledger",
            balances=balance_by_step(look)[::-1],
            states=STATES,
            rules=rules_of_slots(look),
            state=state,
            rule=rule,
            slots=slots_where(look, state, rule or None) if state else [],
        )

    @router.get("/task")
    def task(slug: str, id: str) -> Response:  # noqa: A002 - the parameter's name in the address
        run = site.shelf.run(slug)
        look = run.look()
        found = look.ask("SELECT * FROM {tasks} WHERE task_id = $id LIMIT 1", {"id": id}, commits=look.holding("tasks"))
        return site.render(
            "task.html",
            run=run,
            look=look,
            here="ledger",
            task_id=id,
            task=found[0] if found else None,
            slots=slots_of_task(look, id),
        )

    @router.get("/steps")
    def steps(slug: str, before: int = 0) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        commits = [c for c in look.commits[::-1] if before <= 0 or c.number < before]
        return site.render(
            "steps.html", run=run, look=look, here="steps", commits=commits[:_STEPS], more=commits[_STEPS:]
        )

    @router.get("/step/{step}")
    def step(slug: str, step: int, component: str = "") -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        page = read_step(look, step, component or None)
        return site.render("step.html", run=run, look=look, here="steps", page=page, metric_named=metric_named)


def _add_papers(router: APIRouter, site: Site) -> None:
    @router.get("/gates")
    def gates(slug: str) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        return site.render(
            "gates.html",
            run=run,
            look=look,
            here="gates",
            gates=read_gates(look.path)[::-1],
            alarms=[entry for entry in METRICS if entry.alarm],
        )

    @router.get("/events")
    def events(slug: str, page: int = 1) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        found = read_events(look.path / "events.jsonl")[::-1]
        num_pages = max(1, -(-len(found) // _EVENTS))
        at = min(max(1, page), num_pages)
        return site.render(
            "events.html",
            run=run,
            look=look,
            here="events",
            events=found[(at - 1) * _EVENTS : at * _EVENTS],
            total=len(found),
            page=at,
            num_pages=num_pages,
        )

    @router.get("/manifest")
    def manifest(slug: str, segment: int = 0) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        at = segment if 1 <= segment <= len(look.manifests) else len(look.manifests)
        shown = look.manifests[at - 1]
        return site.render(
            "manifest.html",
            run=run,
            look=look,
            here="manifest",
            manifest=shown,
            number=at,
            sections=sections_of(shown),
            differences=manifest_differences(look.manifests[at - 2], shown) if at > 1 else (),
            checkpoints=RunFolder.open(look.path).checkpoints(),
        )
