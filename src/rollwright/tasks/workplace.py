"""Requests to an office desk, in four slices, each judged by the state of the books at the end.

    one_call     the request names the row: "Close ticket 482."
    look_up      something must be read first: "Give ticket 482 to the agent of ticket 513."
    conditional  what is to be done depends on what stands in the books
    refuse       there is nothing to do, or a rule forbids it: the reason is to be noted, and nothing else changed

A task holds the books as they begin, the changes that are wanted, and a plan of calls that makes them. The two are
written down apart: the plan is run by the tools of the environment, the changes are applied by the verifier.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.office import Office, OfficeSizes, office_of
from rollwright.tasks.office_requests import CONDITIONAL, LOOK_UP, ONE_CALL, REFUSE, Draft
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, fill_splits
from rollwright.tasks.tables import without_columns

__all__ = ["WORKPLACE_SLICES", "WorkplaceScope", "WorkplaceShares", "workplace_scope", "workplace_strata"]

SOURCE = "workplace"
_BUILDER = 2
"""Of the families; part of the revision."""
_FAMILIES: Mapping[str, Mapping[str, Callable[[Office, Random], Draft | None]]] = MappingProxyType(
    {"one_call": ONE_CALL, "look_up": LOOK_UP, "conditional": CONDITIONAL, "refuse": REFUSE}
)
WORKPLACE_SLICES = tuple(_FAMILIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkplaceShares:
    """How often each slice is drawn."""

    one_call: float = 0.3
    look_up: float = 0.3
    conditional: float = 0.2
    refuse: float = 0.2

    def by_slice(self) -> Mapping[str, float]:
        """Name to share.

        Raises:
            TaskError: for shares of which nothing can be drawn.
        """
        shares = {
            "one_call": self.one_call,
            "look_up": self.look_up,
            "conditional": self.conditional,
            "refuse": self.refuse,
        }
        if min(shares.values()) < 0 or sum(shares.values()) <= 0:
            raise TaskError(f"the shares of the slices are {shares}; they must be at least 0 and not all 0")
        return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkplaceScope:
    """How much of the office there is."""

    name: str
    sizes: OfficeSizes
    families: Mapping[str, tuple[str, ...]]
    """Slice to the families of requests that are drawn."""
    tables: tuple[str, ...]
    """Of the books; the others are left out."""
    left_out: tuple[str, ...] = ()
    """Columns that are left out as well."""


_SCOPES = {
    "full": WorkplaceScope(
        name="full",
        sizes=OfficeSizes(),
        families={name: tuple(families) for name, families in _FAMILIES.items()},
        tables=(
            "sales.customers",
            "sales.orders",
            "support.tickets",
            "support.agents",
            "calendar.events",
            "stock.items",
            "desk.declined",
        ),
    ),
    "tiny": WorkplaceScope(
        name="tiny",
        sizes=OfficeSizes(customers=2, orders=4, tickets=4, events=0, items=0),
        families={
            "one_call": ("close_ticket", "cancel_order"),
            "look_up": ("same_agent",),
            "conditional": ("cancel_if_open",),
            "refuse": ("shipped",),
        },
        tables=("sales.orders", "support.tickets", "support.agents", "desk.declined"),
        left_out=("customer",),
    ),
}


def workplace_scope(name: str) -> WorkplaceScope:
    """The whole office (`full`), or a corner of it for very small models (`tiny`).

    Raises:
        TaskError: for another name.
    """
    if name not in _SCOPES:
        raise TaskError(f"there is no office of size {name!r}; there are {', '.join(_SCOPES)}")
    return _SCOPES[name]


def workplace_strata(
    sizes: SplitSizes, *, scope: WorkplaceScope, shares: WorkplaceShares, seed: int
) -> tuple[Stratum, ...]:
    """The slices, each a stratum with its own weight; a slice of share 0 is left out.

    Args:
        sizes: distinct tasks wanted over all slices, divided as the shares say.
        scope: how much of the office there is.
        shares: of the slices.
        seed: of books and requests.
    """
    weights = {name: share for name, share in shares.by_slice().items() if share > 0}
    total = sum(weights.values())
    revision = f"workplace:{digest([_BUILDER, scope.name, seed])[:16]}"
    strata: list[Stratum] = []
    for name, weight in weights.items():
        part = SplitSizes(
            train=max(1, round(sizes.train * weight / total)), held_out=round(sizes.held_out * weight / total)
        )
        source = fill_splits(_payloads(name, scope, seed), part, name=SOURCE, revision=revision)
        strata.append(Stratum(name=name, weight=weight, train=source.train, held_out=source.held_out))
    return tuple(strata)


def _payloads(slice_name: str, scope: WorkplaceScope, seed: int) -> Iterator[Payload]:
    """Books and a request, again and again; the families take turns."""
    number = 0
    while True:
        for family in scope.families[slice_name]:
            number += 1
            chance = Random(seed_of(seed, SOURCE, slice_name, number))
            office = office_of(chance.getrandbits(60), scope.sizes)
            draft = _FAMILIES[slice_name][family](office, chance)
            if draft is not None:
                yield _payload(draft, office, scope, (slice_name, family))


def _payload(draft: Draft, office: Office, scope: WorkplaceScope, names: tuple[str, str]) -> Payload:
    initial: dict[str, Json] = {
        name: without_columns(office.tables[name], scope.left_out).json() for name in scope.tables
    }
    info: dict[str, Json] = {
        "slice": names[0],
        "family": names[1],
        "initial": initial,
        "changes": [change.json() for change in draft.changes],
        "plan": [{"tool": tool, "arguments": arguments} for tool, arguments in draft.plan],
        "untouched": draft.untouched,
    }
    return Payload(messages=(Message(role="user", text=draft.text),), answer="done", info=info)
