"""A small firm's books, drawn by seed: customers and orders, tickets and agents, a calendar, a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rollwright.tasks.tables import Cell, Table, Tables

__all__ = ["AGENTS", "DAYS", "ITEMS", "LARGE_ORDER", "STREETS", "SUBJECTS", "Office", "OfficeSizes", "office_of"]

AGENTS = ("bo", "cy", "di", "ed")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
ITEMS = ("bolt", "nut", "gear", "belt", "lamp", "pump")
SUBJECTS = ("late parcel", "broken lid", "wrong color", "refund", "new address", "lost key")
STREETS = ("Mill Road", "High Street", "Park Lane", "Oak Way")
LARGE_ORDER = 50
"""Pieces; an order of more is cancelled by its manager alone. A rule that the tools do not enforce."""
_FIRST = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hal")
_LAST = ("Adler", "Brook", "Chen", "Diaz", "Evans")
_TITLES = ("stand-up", "review", "planning", "interview", "audit", "training")
_HOURS = range(8, 17)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeSizes:
    """Rows of each table."""

    customers: int = 12
    orders: int = 16
    tickets: int = 10
    events: int = 6
    items: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """The books at the beginning of an episode."""

    tables: Tables

    def rows(self, table: str, **equal: Cell) -> list[dict[str, Cell]]:
        """The rows of a table whose columns have these values, by id."""
        held = self.tables[table]
        found = (dict(held.row(key)) for key in sorted(held.rows))
        return [row for row in found if all(row[column] == value for column, value in equal.items())]

    def unused_id(self, table: str, chance: Random) -> int:
        """A number of three digits that no row of the table has."""
        return _numbers(chance, 1, taken=set(self.tables[table].rows))[0]


def office_of(seed: int, sizes: OfficeSizes) -> Office:
    """Draw the books.

    Args:
        seed: equal seeds give equal books.
        sizes: of the tables; a table of no rows is there, and empty.
    """
    chance = Random(seed)
    customers = _customers(chance, sizes.customers)
    of_whom = [row[0] for row in customers]
    orders = [
        (key, chance.choice(of_whom), chance.choice(ITEMS), _pieces(chance), chance.choice(("open", "open", "shipped")))
        for key in _numbers(chance, sizes.orders)
    ]
    tickets = [
        (
            key,
            chance.choice(of_whom),
            chance.choice(SUBJECTS),
            chance.choice(AGENTS),
            chance.choice(("open", "open", "closed")),
        )
        for key in _numbers(chance, sizes.tickets)
    ]
    slots = chance.sample([(day, hour) for day in DAYS for hour in _HOURS], sizes.events)
    events = [
        (key, chance.choice(_TITLES), day, hour)
        for key, (day, hour) in zip(_numbers(chance, sizes.events), slots, strict=True)
    ]
    items = [(number, name, chance.randint(2, 60)) for number, name in enumerate(ITEMS[: sizes.items], start=1)]
    return Office(
        tables={
            "sales.customers": _table(("id", "name", "address"), customers),
            "sales.orders": _table(("id", "customer", "item", "pieces", "status"), orders),
            "support.tickets": _table(("id", "customer", "subject", "agent", "status"), tickets),
            "support.agents": _table(("id", "name"), list(enumerate(AGENTS, start=1))),
            "calendar.events": _table(("id", "title", "day", "hour"), events),
            "stock.items": _table(("id", "name", "pieces"), items),
            "desk.declined": _table(("id", "reason"), []),
        }
    )


def _customers(chance: Random, count: int) -> list[tuple[int, str, str]]:
    names = chance.sample([f"{first} {last}" for first in _FIRST for last in _LAST], count)
    keys = _numbers(chance, count)
    return [
        (key, name, f"{chance.randint(1, 99)} {chance.choice(STREETS)}") for key, name in zip(keys, names, strict=True)
    ]


def _numbers(chance: Random, count: int, *, taken: set[int] | None = None) -> list[int]:
    free = [number for number in range(100, 1000) if number not in (taken or set())]
    return chance.sample(free, count)


def _pieces(chance: Random) -> int:
    return chance.randint(1, 9) if chance.random() < 0.8 else chance.randint(LARGE_ORDER + 1, 99)


def _table(columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(columns=columns, rows={key: row for row in rows if isinstance(key := row[0], int)})
