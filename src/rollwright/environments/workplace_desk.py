"""The tools of the office desk, over the books of one episode.

What is refused is said in a typed error that the policy can read: `not_found`, `ambiguous`, `not_allowed`, `conflict`.
"""

from collections.abc import Mapping
from typing import Literal

from rollwright.environments.database import Database
from rollwright.environments.errors import ToolError
from rollwright.tasks import Cell

__all__ = ["Day", "Desk", "Reason"]

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday"]
Reason = Literal["not_found", "ambiguous", "not_allowed", "nothing_to_do"]
_MOST = 10_000
"""Pieces that a line of the books can hold."""


class Desk:
    """Each public method is a tool."""

    def __init__(self, books: Database) -> None:
        self._books = books

    def find_customer(self, name: str) -> str:
        """Look a customer up.

        Args:
            name: whole name, or last name
        """
        wanted = name.strip().casefold()
        rows = self._books.rows("sales.customers")
        exact = [row for row in rows if str(row["name"]).casefold() == wanted]
        found = exact or [row for row in rows if str(row["name"]).casefold().split()[-1] == wanted]
        if not found:
            raise ToolError(f"not_found: no customer is named {name[:40]!r}")
        if len(found) > 1:
            names = ", ".join(str(row["name"]) for row in found)
            raise ToolError(f"ambiguous: {names}; give the whole name")
        return f"customer {found[0]['id']}: {found[0]['name']}, {found[0]['address']}"

    def set_address(self, customer: int, address: str) -> str:
        """Change where a customer lives.

        Args:
            customer: number of the customer
            address: new address, at most 80 characters
        """
        self._row("sales.customers", customer)
        if not 0 < len(address.strip()) <= 80:
            raise ToolError("not_allowed: an address has 1 to 80 characters")
        self._books.change("sales.customers", customer, address=address.strip())
        return f"customer {customer}: {address.strip()}"

    def list_orders(self, customer: int) -> str:
        """List the orders of a customer.

        Args:
            customer: number of the customer
        """
        self._row("sales.customers", customer)
        return "\n".join(_order(row) for row in self._books.rows("sales.orders", customer=customer)) or "no orders"

    def get_order(self, order: int) -> str:
        """Read an order.

        Args:
            order: number of the order
        """
        return _order(self._row("sales.orders", order))

    def cancel_order(self, order: int) -> str:
        """Cancel an open order.

        Args:
            order: number of the order
        """
        self._open_order(order)
        self._books.change("sales.orders", order, status="cancelled")
        return f"order {order} cancelled"

    def change_pieces(self, order: int, pieces: int) -> str:
        """Change how many pieces an open order is of.

        Args:
            order: number of the order
            pieces: how many, from 1
        """
        self._open_order(order)
        if not 0 < pieces <= _MOST:
            raise ToolError(f"not_allowed: an order is of 1 to {_MOST} pieces")
        self._books.change("sales.orders", order, pieces=pieces)
        return f"order {order}: {pieces} pieces"

    def get_ticket(self, ticket: int) -> str:
        """Read a ticket.

        Args:
            ticket: number of the ticket
        """
        row = self._row("support.tickets", ticket)
        return f"ticket {ticket}: {row['agent']}, {row['status']}, {row['subject']}{_whose(row)}"

    def create_ticket(self, customer: int, subject: str, agent: str) -> str:
        """Open a ticket.

        Args:
            customer: number of the customer
            subject: at most 40 characters
            agent: who is to handle it
        """
        self._row("sales.customers", customer)
        self._check_agent(agent)
        if not 0 < len(subject.strip()) <= 40:
            raise ToolError("not_allowed: a subject has 1 to 40 characters")
        made = self._books.insert(
            "support.tickets", customer=customer, subject=subject.strip(), agent=agent, status="open"
        )
        return f"ticket {made} opened"

    def assign_ticket(self, ticket: int, agent: str) -> str:
        """Give an open ticket to an agent.

        Args:
            ticket: number of the ticket
            agent: who is to handle it
        """
        self._open_ticket(ticket)
        self._check_agent(agent)
        self._books.change("support.tickets", ticket, agent=agent)
        return f"ticket {ticket}: {agent}"

    def close_ticket(self, ticket: int) -> str:
        """Close an open ticket.

        Args:
            ticket: number of the ticket
        """
        self._open_ticket(ticket)
        self._books.change("support.tickets", ticket, status="closed")
        return f"ticket {ticket} closed"

    def list_events(self, day: Day) -> str:
        """List what is in the calendar.

        Args:
            day: of the week
        """
        rows = self._books.rows("calendar.events", day=day)
        return "\n".join(f"event {row['id']}: {row['title']} at {row['hour']}" for row in rows) or "nothing"

    def create_event(self, title: str, day: Day, hour: int) -> str:
        """Put something into the calendar.

        Args:
            title: at most 40 characters
            day: of the week
            hour: when it begins, from 8 to 16
        """
        if not 0 < len(title.strip()) <= 40:
            raise ToolError("not_allowed: a title has 1 to 40 characters")
        self._check_free(day, hour)
        made = self._books.insert("calendar.events", title=title.strip(), day=day, hour=hour)
        return f"event {made}: {day} at {hour}"

    def move_event(self, event: int, day: Day, hour: int) -> str:
        """Move an event to another time.

        Args:
            event: number of the event
            day: of the week
            hour: when it begins, from 8 to 16
        """
        self._row("calendar.events", event)
        self._check_free(day, hour)
        self._books.change("calendar.events", event, day=day, hour=hour)
        return f"event {event}: {day} at {hour}"

    def cancel_event(self, event: int) -> str:
        """Take an event out of the calendar.

        Args:
            event: number of the event
        """
        self._row("calendar.events", event)
        self._books.delete("calendar.events", event)
        return f"event {event} cancelled"

    def get_item(self, item: str) -> str:
        """Say how many pieces of an item are in stock.

        Args:
            item: its name
        """
        return f"{item}: {self._item(item)['pieces']} pieces"

    def restock(self, item: str, pieces: int) -> str:
        """Take more pieces of an item into stock.

        Args:
            item: its name
            pieces: how many more, from 1
        """
        row = self._item(item)
        held, key = row["pieces"], row["id"]
        assert isinstance(held, int) and isinstance(key, int), "the books of a store hold whole numbers"
        if not 0 < pieces <= _MOST:
            raise ToolError(f"not_allowed: 1 to {_MOST} pieces at a time")
        self._books.change("stock.items", key, pieces=held + pieces)
        return f"{item}: {held + pieces} pieces"

    def decline(self, reason: Reason) -> str:
        """Note why nothing is done about a request.

        Args:
            reason: why
        """
        self._books.insert("desk.declined", reason=reason)
        return f"declined: {reason}"

    def _row(self, table: str, key: int) -> Mapping[str, Cell]:
        found = self._books.row(table, key)
        if found is None:
            kind = table.split(".")[1].removesuffix("s")
            raise ToolError(f"not_found: no {kind} {key}")
        return found

    def _item(self, name: str) -> Mapping[str, Cell]:
        found = self._books.rows("stock.items", name=name)
        if not found:
            raise ToolError(f"not_found: no item {name[:40]!r}")
        return found[0]

    def _open_order(self, order: int) -> None:
        status = self._row("sales.orders", order)["status"]
        if status != "open":
            raise ToolError(f"not_allowed: order {order} is {status}")

    def _open_ticket(self, ticket: int) -> None:
        status = self._row("support.tickets", ticket)["status"]
        if status != "open":
            raise ToolError(f"not_allowed: ticket {ticket} is {status}")

    def _check_agent(self, name: str) -> None:
        if not self._books.rows("support.agents", name=name):
            known = ", ".join(str(row["name"]) for row in self._books.rows("support.agents"))
            raise ToolError(f"not_found: no agent {name[:40]!r}; there are {known}")

    def _check_free(self, day: str, hour: int) -> None:
        if not 8 <= hour <= 16:
            raise ToolError("not_allowed: an event begins from 8 to 16")
        if self._books.rows("calendar.events", day=day, hour=hour):
            raise ToolError(f"conflict: {day} at {hour} is taken")


def _order(row: Mapping[str, Cell]) -> str:
    return f"order {row['id']}: {row['status']}, {row['pieces']} {row['item']}{_whose(row)}"


def _whose(row: Mapping[str, Cell]) -> str:
    """Books of the smallest size know no customers."""
    return f", customer {row['customer']}" if "customer" in row else ""
