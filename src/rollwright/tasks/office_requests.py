"""Families of requests to the office: what is asked, what is to become of the books, and calls that bring it about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import cast

from rollwright.tasks.office import AGENTS, DAYS, ITEMS, LARGE_ORDER, STREETS, SUBJECTS, Office
from rollwright.tasks.payload import Json
from rollwright.tasks.tables import Cell, Change

__all__ = ["CONDITIONAL", "LOOK_UP", "ONE_CALL", "REFUSE", "Draft"]

Call = tuple[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request before it becomes a task."""

    text: str
    changes: tuple[Change, ...]
    plan: tuple[Call, ...]
    untouched: tuple[str, ...] = ()
    """Rows (`table/id`) or tables that must not be written, not even for a while."""


Family = Callable[[Office, Random], Draft | None]
"""None where these books give no such request."""
Row = Mapping[str, Cell]


def _set(table: str, key: Cell, **cells: Cell) -> Change:
    return Change(table=table, key=cast("int", key), cells=cells)


def _new(table: str, **cells: Cell) -> Change:
    return Change(table=table, key=None, cells=cells)


def _declined(text: str, reason: str, *looks: Call, untouched: tuple[str, ...] = ()) -> Draft:
    return Draft(
        text=text,
        changes=(_new("desk.declined", reason=reason),),
        plan=(*looks, ("decline", {"reason": reason})),
        untouched=untouched,
    )


def _pick(chance: Random, rows: list[dict[str, Cell]]) -> Row | None:
    return chance.choice(rows) if rows else None


def _small_open(office: Office) -> list[dict[str, Cell]]:
    return [row for row in office.rows("sales.orders", status="open") if cast("int", row["pieces"]) <= LARGE_ORDER]


def _close_ticket(office: Office, chance: Random) -> Draft | None:
    tickets = office.rows("support.tickets", status="open")
    if len(tickets) < 2:
        return None  # With one open ticket, closing all of them would be right by chance.
    ticket = chance.choice(tickets)
    return Draft(
        text=f"Close ticket {ticket['id']}.",
        changes=(_set("support.tickets", ticket["id"], status="closed"),),
        plan=(("close_ticket", {"ticket": ticket["id"]}),),
    )


def _assign_ticket(office: Office, chance: Random) -> Draft | None:
    ticket, agent = _pick(chance, office.rows("support.tickets", status="open")), chance.choice(AGENTS)
    if ticket is None or ticket["agent"] == agent:
        return None
    return Draft(
        text=f"Give ticket {ticket['id']} to {agent}.",
        changes=(_set("support.tickets", ticket["id"], agent=agent),),
        plan=(("assign_ticket", {"ticket": ticket["id"], "agent": agent}),),
    )


def _cancel_order(office: Office, chance: Random) -> Draft | None:
    order = _pick(chance, _small_open(office))
    if order is None:
        return None
    return Draft(
        text=f"Cancel order {order['id']}.",
        changes=(_set("sales.orders", order["id"], status="cancelled"),),
        plan=(("cancel_order", {"order": order["id"]}),),
    )


def _change_pieces(office: Office, chance: Random) -> Draft | None:
    order, pieces = _pick(chance, _small_open(office)), chance.randint(1, 9)
    if order is None or order["pieces"] == pieces:
        return None
    return Draft(
        text=f"Change order {order['id']} to {pieces} pieces.",
        changes=(_set("sales.orders", order["id"], pieces=pieces),),
        plan=(("change_pieces", {"order": order["id"], "pieces": pieces}),),
    )


def _restock(office: Office, chance: Random) -> Draft | None:
    item, more = _pick(chance, office.rows("stock.items")), chance.randint(10, 90)
    if item is None:
        return None
    return Draft(
        text=f"Take {more} more of {item['name']} into stock.",
        changes=(_set("stock.items", item["id"], pieces=cast("int", item["pieces"]) + more),),
        plan=(("restock", {"item": item["name"], "pieces": more}),),
    )


def _create_event(office: Office, chance: Random) -> Draft | None:
    title, day, hour = f"call {chance.randint(10, 99)}", chance.choice(DAYS), chance.randint(8, 16)
    if office.rows("calendar.events", day=day, hour=hour):
        return None
    return Draft(
        text=f"Put '{title}' into the calendar on {day} at {hour}.",
        changes=(_new("calendar.events", title=title, day=day, hour=hour),),
        plan=(("create_event", {"title": title, "day": day, "hour": hour}),),
    )


def _same_agent(office: Office, chance: Random) -> Draft | None:
    tickets = office.rows("support.tickets", status="open")
    if len(tickets) < 2:
        return None
    mine, other = chance.sample(tickets, 2)
    if mine["agent"] == other["agent"]:
        return None
    return Draft(
        text=f"Give ticket {mine['id']} to the agent of ticket {other['id']}.",
        changes=(_set("support.tickets", mine["id"], agent=other["agent"]),),
        plan=(
            ("get_ticket", {"ticket": other["id"]}),
            ("assign_ticket", {"ticket": mine["id"], "agent": other["agent"]}),
        ),
    )


def _order_of_customer(office: Office, chance: Random) -> Draft | None:
    order = _pick(chance, _small_open(office))
    if order is None or len(office.rows("sales.orders", customer=order["customer"], status="open")) != 1:
        return None
    name = office.rows("sales.customers", id=order["customer"])[0]["name"]
    return Draft(
        text=f"{name} wants the open order cancelled.",
        changes=(_set("sales.orders", order["id"], status="cancelled"),),
        plan=(
            ("find_customer", {"name": name}),
            ("list_orders", {"customer": order["customer"]}),
            ("cancel_order", {"order": order["id"]}),
        ),
    )


def _new_address(office: Office, chance: Random) -> Draft | None:
    customer = chance.choice(office.rows("sales.customers"))
    address = f"{chance.randint(100, 199)} {chance.choice(STREETS)}"
    return Draft(
        text=f"{customer['name']} moves to {address}.",
        changes=(_set("sales.customers", customer["id"], address=address),),
        plan=(
            ("find_customer", {"name": customer["name"]}),
            ("set_address", {"customer": customer["id"], "address": address}),
        ),
    )


def _ticket_for_customer(office: Office, chance: Random) -> Draft | None:
    customer, subject, agent = (
        chance.choice(office.rows("sales.customers")),
        chance.choice(SUBJECTS),
        chance.choice(AGENTS),
    )
    return Draft(
        text=f"Open a ticket '{subject}' for {customer['name']}, for {agent} to handle.",
        changes=(_new("support.tickets", customer=customer["id"], subject=subject, agent=agent, status="open"),),
        plan=(
            ("find_customer", {"name": customer["name"]}),
            ("create_ticket", {"customer": customer["id"], "subject": subject, "agent": agent}),
        ),
    )


def _move_event(office: Office, chance: Random) -> Draft | None:
    event = _pick(chance, office.rows("calendar.events"))
    day, hour = chance.choice(DAYS), chance.randint(8, 16)
    if event is None or office.rows("calendar.events", day=day, hour=hour):
        return None
    return Draft(
        text=f"Move what is on {event['day']} at {event['hour']} to {day} at {hour}.",
        changes=(_set("calendar.events", event["id"], day=day, hour=hour),),
        plan=(
            ("list_events", {"day": event["day"]}),
            ("move_event", {"event": event["id"], "day": day, "hour": hour}),
        ),
    )


def _cancel_if_open(office: Office, chance: Random) -> Draft | None:
    order = _pick(chance, [*_small_open(office), *office.rows("sales.orders", status="shipped")])
    if order is None:
        return None
    text, look = f"Cancel order {order['id']} if it is open.", ("get_order", {"order": order["id"]})
    if order["status"] == "shipped":
        return _declined(text, "nothing_to_do", look, untouched=(f"sales.orders/{order['id']}",))
    return Draft(
        text=text,
        changes=(_set("sales.orders", order["id"], status="cancelled"),),
        plan=(look, ("cancel_order", {"order": order["id"]})),
    )


def _return_if_shipped(office: Office, chance: Random) -> Draft | None:
    order = _pick(chance, [*_small_open(office), *office.rows("sales.orders", status="shipped")])
    if order is None:
        return None
    agent = chance.choice(AGENTS)
    text = f"Cancel order {order['id']}; if it has shipped, open a ticket 'return' for its customer and {agent}."
    look: Call = ("get_order", {"order": order["id"]})
    if order["status"] == "open":
        return Draft(
            text=text,
            changes=(_set("sales.orders", order["id"], status="cancelled"),),
            plan=(look, ("cancel_order", {"order": order["id"]})),
        )
    return Draft(
        text=text,
        changes=(_new("support.tickets", customer=order["customer"], subject="return", agent=agent, status="open"),),
        plan=(look, ("create_ticket", {"customer": order["customer"], "subject": "return", "agent": agent})),
        untouched=(f"sales.orders/{order['id']}",),
    )


def _restock_if_low(office: Office, chance: Random) -> Draft | None:
    item, least, more = _pick(chance, office.rows("stock.items")), chance.randint(10, 50), chance.randint(20, 90)
    if item is None:
        return None
    held = cast("int", item["pieces"])
    text = f"If fewer than {least} of {item['name']} are in stock, take {more} more."
    look: Call = ("get_item", {"item": item["name"]})
    if held >= least:
        return _declined(text, "nothing_to_do", look)
    return Draft(
        text=text,
        changes=(_set("stock.items", item["id"], pieces=held + more),),
        plan=(look, ("restock", {"item": item["name"], "pieces": more})),
    )


def _shipped(office: Office, chance: Random) -> Draft | None:
    order = _pick(chance, office.rows("sales.orders", status="shipped"))
    if order is None:
        return None
    text = f"Cancel order {order['id']}."
    return _declined(text, "not_allowed", ("get_order", {"order": order["id"]}))


def _large(office: Office, chance: Random) -> Draft | None:
    open_ones = office.rows("sales.orders", status="open")
    order = _pick(chance, [row for row in open_ones if cast("int", row["pieces"]) > LARGE_ORDER])
    if order is None:
        return None
    return _declined(
        f"Cancel order {order['id']}.",
        "not_allowed",
        ("get_order", {"order": order["id"]}),
        untouched=(f"sales.orders/{order['id']}",),
    )


def _unknown_ticket(office: Office, chance: Random) -> Draft | None:
    number = office.unused_id("support.tickets", chance)
    return _declined(f"Close ticket {number}.", "not_found", ("get_ticket", {"ticket": number}))


def _closed_ticket(office: Office, chance: Random) -> Draft | None:
    ticket = _pick(chance, office.rows("support.tickets", status="closed"))
    if ticket is None:
        return None
    return _declined(f"Close ticket {ticket['id']}.", "nothing_to_do", ("get_ticket", {"ticket": ticket["id"]}))


def _ambiguous(office: Office, chance: Random) -> Draft | None:
    names = [str(row["name"]).split()[1] for row in office.rows("sales.customers")]
    shared = sorted({name for name in names if names.count(name) > 1})
    if not shared:
        return None
    last = chance.choice(shared)
    text = f"Open a ticket '{chance.choice(SUBJECTS)}' for customer {last} and {chance.choice(AGENTS)}."
    return _declined(text, "ambiguous", ("find_customer", {"name": last}))


def _unknown_item(office: Office, chance: Random) -> Draft | None:
    item = f"{chance.choice(ITEMS)}-{chance.randint(100, 999)}"
    return _declined(
        f"Take {chance.randint(2, 9)} more of {item} into stock.", "not_found", ("get_item", {"item": item})
    )


ONE_CALL: Mapping[str, Family] = MappingProxyType(
    {
        "close_ticket": _close_ticket,
        "assign_ticket": _assign_ticket,
        "cancel_order": _cancel_order,
        "change_pieces": _change_pieces,
        "restock": _restock,
        "create_event": _create_event,
    }
)
LOOK_UP: Mapping[str, Family] = MappingProxyType(
    {
        "same_agent": _same_agent,
        "order_of_customer": _order_of_customer,
        "new_address": _new_address,
        "ticket_for_customer": _ticket_for_customer,
        "move_event": _move_event,
    }
)
CONDITIONAL: Mapping[str, Family] = MappingProxyType(
    {"cancel_if_open": _cancel_if_open, "return_if_shipped": _return_if_shipped, "restock_if_low": _restock_if_low}
)
REFUSE: Mapping[str, Family] = MappingProxyType(
    {
        "shipped": _shipped,
        "large": _large,
        "unknown_ticket": _unknown_ticket,
        "closed_ticket": _closed_ticket,
        "ambiguous": _ambiguous,
        "unknown_item": _unknown_item,
    }
)
