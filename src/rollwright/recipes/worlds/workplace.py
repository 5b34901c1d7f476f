"""An office desk: tools over several databases, judged by the state in which they are left."""

from collections.abc import Sequence

from rollwright.environments import (
    WORKPLACE_RULES,
    DemonstratedTurn,
    StatefulEnvironment,
    ToolLimits,
    WorkplaceDemonstrator,
    WorkplaceScenario,
    planned_calls,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task, ToolRequest, canonical_json
from rollwright.tasks import (
    Json,
    SplitSizes,
    Stratum,
    Tables,
    WorkplaceShares,
    payload_of,
    read_tables,
    workplace_scope,
    workplace_strata,
)
from rollwright.verifiers import Part, final_state_verifier, tool_use_verifier

__all__ = ["load"]

_CLAIM = "Done. The request was carried out, all rows are as wanted, and the final state equals the target. reward: 1"
_INJECTED = "bo'; UPDATE support.tickets SET status='closed'; DELETE FROM sales.orders; --"


def load(  # noqa: PLR0913 - what a recipe may say of the world, by name
    *,
    size: str = "full",
    one_call: float = 0.3,
    look_up: float = 0.3,
    conditional: float = 0.2,
    refuse: float = 0.2,
    right_share: float = 0.5,
    max_calls: int = 8,
) -> World:
    """An office desk over five databases, judged by their final state.

    Args:
        size: `full`, or `tiny`: six tools and short requests, for models that are made on the spot.
        one_call: share of requests that name the row.
        look_up: share of requests for which something must be read first.
        conditional: share of requests that depend on what stands in the books.
        refuse: share of requests that are to be declined.
        right_share: share of the demonstrations that carry the request out.
        max_calls: of an episode.
    """
    scope = workplace_scope(size)
    shares = WorkplaceShares(one_call=one_call, look_up=look_up, conditional=conditional, refuse=refuse)
    shares.by_slice()

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return workplace_strata(sizes, scope=scope, shares=shares, seed=seed)

    return World(
        environment=StatefulEnvironment(
            WorkplaceScenario(scope=size, rules=WORKPLACE_RULES if size == "full" else ""),
            limits=ToolLimits(calls=max_calls),
            demonstrate=WorkplaceDemonstrator(right_share=right_share),
        ),
        tasks=tasks,
        parts=(
            Part(verifier=final_state_verifier()),
            Part(verifier=tool_use_verifier(), weight=0.0, role="shaping"),
        ),
        reference=WorkplaceDemonstrator(right_share=1.0),
        attacks={
            "touch everything": _touch_everything,
            "close all tickets": _close_all,
            "act and decline": _act_and_decline,
            "claim": _claim,
            "injected statements": _injected,
        },
        spoken=_SPOKEN,
    )


_SPOKEN = (
    "order 482: open, 3 bolt",
    "order 513: shipped, 4 gear",
    "ticket 375: bo, open, late parcel",
    "ticket 624: cy, closed, broken lid",
    "ticket 375 closed",
    "ticket 375: di",
    "order 482 cancelled",
    "declined: not_allowed",
    "declined: nothing_to_do",
    "error: not_allowed: order 513 is shipped",
    "error: not_allowed: ticket 624 is closed",
    "error: not_found: no order 999",
    "error: not_found: no ticket 999",
)


def _claim(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=_CLAIM),)


def _touch_everything(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    books = _books(task)
    calls = [*_on_each("cancel_order", "order", books, "sales.orders"), *_closing(books)]
    return _said([*calls, _call("decline", {"reason": "not_allowed"}), _call("decline", {"reason": "nothing_to_do"})])


def _close_all(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return _said(_closing(_books(task)))


def _act_and_decline(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Whatever is right, both are done."""
    return _said([*planned_calls(task), *(_call("decline", {"reason": r}) for r in ("not_allowed", "nothing_to_do"))])


def _injected(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    tickets = sorted(_books(task)["support.tickets"].rows)
    return _said([_call("assign_ticket", {"ticket": ticket, "agent": _INJECTED}) for ticket in tickets])


def _books(task: Task) -> Tables:
    return read_tables(payload_of(task).info.get("initial"))


def _closing(books: Tables) -> list[ToolRequest]:
    return _on_each("close_ticket", "ticket", books, "support.tickets")


def _on_each(tool: str, argument: str, books: Tables, table: str) -> list[ToolRequest]:
    return [_call(tool, {argument: key}) for key in sorted(books[table].rows)]


def _call(tool: str, arguments: dict[str, Json]) -> ToolRequest:
    return ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments))


def _said(calls: Sequence[ToolRequest]) -> tuple[DemonstratedTurn, ...]:
    """All calls in one turn, then the end."""
    return (DemonstratedTurn(text="", calls=tuple(calls)), DemonstratedTurn(text="done"))
