"""The office desk as a scenario, and agents that show how it goes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import cast

from rollwright.environments.database import Database
from rollwright.environments.demonstration import DemonstratedTurn
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.schemas import Arguments, FunctionSchema, schema_of
from rollwright.environments.workplace_desk import Desk
from rollwright.record import Message, Task, ToolRequest, canonical_json, digest, seed_of
from rollwright.tasks import AGENTS, Json, TaskError, payload_of, read_tables

__all__ = ["WORKPLACE_RULES", "WorkplaceDemonstrator", "WorkplaceScenario", "WorkplaceState", "planned_calls"]

WORKPLACE_RULES = (
    "You work at the desk of an office and carry requests out with the tools. Change nothing that was not asked for. "
    "Where there is nothing to do, or what is asked for is not found, ambiguous or not allowed, call decline with the "
    "reason and change nothing else. An order of more than 50 pieces must not be cancelled."
)
"""The system turn of the whole office."""
_TOOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "full": (
            "find_customer",
            "set_address",
            "list_orders",
            "get_order",
            "cancel_order",
            "change_pieces",
            "get_ticket",
            "create_ticket",
            "assign_ticket",
            "close_ticket",
            "list_events",
            "create_event",
            "move_event",
            "cancel_event",
            "get_item",
            "restock",
            "decline",
        ),
        "tiny": ("get_order", "cancel_order", "get_ticket", "assign_ticket", "close_ticket", "decline"),
    }
)
_BEHAVIOR = 2
"""Of the desk's rules; raised where a tool answers otherwise."""


class WorkplaceScenario:
    """A `Scenario`: books in a database, tools over them; the episode ends with the first turn without a call."""

    def __init__(self, *, scope: str = "full", rules: str = WORKPLACE_RULES) -> None:
        """Choose the tools.

        Args:
            scope: `full`, or `tiny` for the few tools of a corner of the office.
            rules: the system turn; empty for none.
        """
        if scope not in _TOOLS:
            raise EnvironmentSetupError(f"there is no office of size {scope!r}; there are {', '.join(_TOOLS)}")
        self._scope = scope
        self._rules = rules
        blank = Database({})
        try:
            self._schemas = MappingProxyType(
                {name: schema_of(tool) for name, tool in _tools(Desk(blank)).items() if name in _TOOLS[scope]}
            )
        finally:
            blank.close()

    @property
    def name(self) -> str:
        """In the tables."""
        return "workplace"

    @property
    def revision(self) -> str:
        """Of tools and rules."""
        return digest([_BEHAVIOR, self._scope, self._rules])[:16]

    @property
    def schemas(self) -> Mapping[str, FunctionSchema]:
        """Of the tools in scope."""
        return self._schemas

    def open(self, task: Task, seed: int) -> "WorkplaceState":
        """The books as the task has them; the seed decides nothing."""
        payload = payload_of(task)
        return WorkplaceState(Database(read_tables(payload.info.get("initial"))), self._opening(task))

    def restore(self, task: Task, seed: int, content: Json) -> "WorkplaceState":
        """The books as they were kept."""
        if not isinstance(content, Mapping) or set(content) != {"tables", "writes"}:
            raise TaskError("a kept state has tables and writes")
        writes = [(str(t), cast("int", k)) for t, k in cast("Sequence[Sequence[Json]]", content["writes"])]
        return WorkplaceState(Database(read_tables(content["tables"]), writes), self._opening(task))

    def _opening(self, task: Task) -> tuple[Message, ...]:
        asked = payload_of(task).messages
        return (Message(role="system", text=self._rules), *asked) if self._rules else asked


class WorkplaceState:
    """An `EpisodeState`."""

    def __init__(self, books: Database, opening: tuple[Message, ...]) -> None:
        self._books = books
        self._opening = opening
        self._tools = _tools(Desk(books))

    def opening(self) -> tuple[Message, ...]:
        """Rules and request."""
        return self._opening

    def call(self, tool: str, arguments: Arguments) -> str:
        """Run a tool on the books."""
        return self._tools[tool](**arguments)

    def reply(self, text: str) -> str | None:
        """Nobody answers: what was said is the end."""
        return None

    def standing(self) -> Json:
        """All rows."""
        return {name: table.json() for name, table in self._books.tables().items()}

    def content(self) -> Json:
        """All rows, and which were written."""
        return {"tables": self.standing(), "writes": self._books.writes}

    def artifacts(self) -> Mapping[str, bytes]:
        """The final state."""
        return self._books.final_state()

    def close(self) -> None:
        """Close the database."""
        self._books.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkplaceDemonstrator:
    """A `DemonstrateFn`: the task's plan, or for a share of the demonstrations a way that fails.

    A wrong one claims to be done without a call, takes the wrong row, or acts without the look that was needed. So a
    warm start teaches how a call is written and copied, and nothing about which way is worth it.
    """

    right_share: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a share that is none."""
        if not 0 <= self.right_share <= 1:
            raise EnvironmentSetupError(f"right_share is {self.right_share}; it must be in 0..1")

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns shown for a task."""
        plan = planned_calls(task)
        chance = Random(seed_of(seed, "demonstration", task.task_id))
        calls = plan if chance.random() < self.right_share else _gone_wrong(plan, chance)
        turns = tuple(DemonstratedTurn(text="", calls=(call,)) for call in calls)
        return (*turns, DemonstratedTurn(text="done"))


def planned_calls(task: Task) -> tuple[ToolRequest, ...]:
    """The calls of a task's own plan, in order.

    Raises:
        EnvironmentSetupError: for a task without a plan.
    """
    plan = payload_of(task).info.get("plan")
    if not isinstance(plan, Sequence) or isinstance(plan, str) or not plan:
        raise EnvironmentSetupError(f"task {task.task_id} has no `info.plan`; only planned tasks can be demonstrated")
    calls = cast("Sequence[Mapping[str, Json]]", plan)
    return tuple(
        ToolRequest(call_id=f"c{number}", tool=str(call["tool"]), arguments=canonical_json(call["arguments"]))
        for number, call in enumerate(calls)
    )


def _gone_wrong(plan: tuple[ToolRequest, ...], chance: Random) -> tuple[ToolRequest, ...]:
    """One of three mistakes."""
    last = plan[-1]
    mistake = chance.choice(("claim", "claim", "no look", "no look", "wrong row"))
    if mistake == "claim" or (mistake == "no look" and len(plan) == 1):
        return ()
    if mistake == "no look":
        if last.tool == "assign_ticket":
            return (_with_other_text(last, AGENTS, chance),)
        return (last,) if last.tool != "decline" else ()
    if last.tool == "decline":
        return (*plan[:-1], _with_other_reason(last))
    return (*plan[:-1], _with_other_number(last, chance))


def _with_other_number(call: ToolRequest, chance: Random) -> ToolRequest:
    characters = list(call.arguments)
    digits = [place for place, character in enumerate(characters) if character.isdigit()]
    if digits:
        place = chance.choice(digits)
        characters[place] = chance.choice([digit for digit in "123456789" if digit != characters[place]])
    return ToolRequest(call_id=call.call_id, tool=call.tool, arguments="".join(characters))


def _with_other_reason(call: ToolRequest) -> ToolRequest:
    other = "not_allowed" if "nothing_to_do" in call.arguments else "nothing_to_do"
    return ToolRequest(call_id=call.call_id, tool=call.tool, arguments=canonical_json({"reason": other}))


def _with_other_text(call: ToolRequest, words: Sequence[str], chance: Random) -> ToolRequest:
    held = next(word for word in words if f'"{word}"' in call.arguments)
    other = chance.choice([word for word in words if word != held])
    return ToolRequest(
        call_id=call.call_id, tool=call.tool, arguments=call.arguments.replace(f'"{held}"', f'"{other}"')
    )


def _tools(desk: Desk) -> Mapping[str, Callable[..., str]]:
    tools: tuple[Callable[..., str], ...] = (
        desk.find_customer,
        desk.set_address,
        desk.list_orders,
        desk.get_order,
        desk.cancel_order,
        desk.change_pieces,
        desk.get_ticket,
        desk.create_ticket,
        desk.assign_ticket,
        desk.close_ticket,
        desk.list_events,
        desk.create_event,
        desk.move_event,
        desk.cancel_event,
        desk.get_item,
        desk.restock,
        desk.decline,
    )
    return {tool.__name__: tool for tool in tools}
