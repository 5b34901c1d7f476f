"""A clinic of ten departments with twelve tools each: many tools, of which an errand needs one or two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from rollwright.environments.database import Database
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.schemas import Arguments, FunctionSchema
from rollwright.record import Message, Task, digest
from rollwright.tasks import DEPARTMENTS, STATUSES, Cell, Department, Json, TaskError, payload_of, read_tables

__all__ = ["ClinicScenario", "ClinicState"]

_BEHAVIOR = 1
_RULES = "You work for a clinic and carry requests out with the tools. Change nothing that was not asked for."
_WHOLE: Mapping[str, Json] = MappingProxyType({"type": "integer"})
_TEXT: Mapping[str, Json] = MappingProxyType({"type": "string"})
_STATUS: Mapping[str, Json] = MappingProxyType({"type": "string", "enum": list(STATUSES)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClinicTool:
    """A tool of a department."""

    schema: FunctionSchema
    department: Department
    run: Callable[[Database, Department, Arguments], str]


class ClinicScenario:
    """A `Scenario`: the tools of some departments; the episode ends with the first turn without a call."""

    def __init__(self, departments: Sequence[str] = tuple(DEPARTMENTS)) -> None:
        """Register the tools of these departments."""
        if not departments or not set(departments) <= set(DEPARTMENTS):
            raise EnvironmentSetupError(f"departments are {list(departments)}; there are {', '.join(DEPARTMENTS)}")
        self._domains = {name: _tools_of(DEPARTMENTS[name]) for name in departments}
        self._tools = {tool.schema.name: tool for tools in self._domains.values() for tool in tools}

    @property
    def name(self) -> str:
        """In the tables."""
        return "clinic"

    @property
    def revision(self) -> str:
        """Of the departments and their tools."""
        return digest([_BEHAVIOR, list(self._domains), _RULES])[:16]

    @property
    def schemas(self) -> Mapping[str, FunctionSchema]:
        """Of all tools."""
        return MappingProxyType({name: tool.schema for name, tool in self._tools.items()})

    @property
    def domains(self) -> Mapping[str, tuple[str, ...]]:
        """Department to the names of its tools."""
        return MappingProxyType(
            {name: tuple(tool.schema.name for tool in tools) for name, tools in self._domains.items()}
        )

    def open(self, task: Task, seed: int) -> "ClinicState":
        """The records as the task has them; the seed decides nothing."""
        return self._state(task, Database(read_tables(payload_of(task).info.get("initial"))))

    def restore(self, task: Task, seed: int, content: Json) -> "ClinicState":
        """The records as they were kept."""
        if not isinstance(content, Mapping) or set(content) != {"tables", "writes"}:
            raise TaskError("a kept state has tables and writes")
        writes = [(str(t), cast("int", k)) for t, k in cast("Sequence[Sequence[Json]]", content["writes"])]
        return self._state(task, Database(read_tables(content["tables"]), writes))

    def _state(self, task: Task, records: Database) -> "ClinicState":
        return ClinicState(records, self._tools, (Message(role="system", text=_RULES), *payload_of(task).messages))


class ClinicState:
    """An `EpisodeState`."""

    def __init__(self, records: Database, tools: Mapping[str, _ClinicTool], opening: tuple[Message, ...]) -> None:
        self._records = records
        self._tools = tools
        self._opening = opening

    def opening(self) -> tuple[Message, ...]:
        """Rules and request."""
        return self._opening

    def call(self, tool: str, arguments: Arguments) -> str:
        """Run a tool on the records."""
        called = self._tools[tool]
        return called.run(self._records, called.department, arguments)

    def reply(self, text: str) -> str | None:
        """Nobody answers: what was said is the end."""
        return None

    def standing(self) -> Json:
        """All records."""
        return {name: table.json() for name, table in self._records.tables().items()}

    def content(self) -> Json:
        """All records, and which were written."""
        return {"tables": self.standing(), "writes": self._records.writes}

    def artifacts(self) -> Mapping[str, bytes]:
        """The final state."""
        return self._records.final_state()

    def close(self) -> None:
        """Close the database."""
        self._records.close()


def _tools_of(department: Department) -> tuple[_ClinicTool, ...]:
    """Twelve: five that find, three that count, four that change."""
    thing, number = department.thing, department.number
    key: Mapping[str, Json] = {**_WHOLE, "description": f"number of the {thing}"}
    patient: Mapping[str, Json] = {**_WHOLE, "description": "number of the patient"}
    staff: Mapping[str, Json] = {**_TEXT, "description": "name of the member of staff"}
    status: Mapping[str, Json] = {**_STATUS, "description": "open, done or cancelled"}
    value: Mapping[str, Json] = {**_WHOLE, "description": f"the new {number}"}

    def tool(
        verb: str, says: str, run: Callable[[Database, Department, Arguments], str], **takes: Mapping[str, Json]
    ) -> _ClinicTool:
        schema = FunctionSchema(
            name=f"{department.name}_{verb}", description=says, properties=takes, required=tuple(takes)
        )
        return _ClinicTool(schema=schema, department=department, run=run)

    return (
        tool("get", f"Show a {thing}.", _get, key=key),
        tool("list", f"Show every {thing}.", _list),
        tool("of_patient", f"Show each {thing} of a patient.", _where("patient"), patient=patient),
        tool("of_staff", f"Show each {thing} that someone has.", _where("staff"), staff=staff),
        tool("with_status", f"Show each {thing} of a status.", _where("status"), status=status),
        tool("count", f"Count every {thing} of a status.", _count, status=status),
        tool("total", f"Add up the {number} of every {thing}.", _total),
        tool("highest", f"Show the {thing} with the highest {number}.", _highest),
        tool(f"set_{number}", f"Set the {number} of a {thing}.", _set_number, key=key, value=value),
        tool("set_staff", f"Give a {thing} to someone.", _set_staff, key=key, staff=staff),
        tool("finish", f"Mark a {thing} as done.", _status_to("done"), key=key),
        tool("cancel", f"Cancel a {thing}.", _status_to("cancelled"), key=key),
    )


def _get(records: Database, department: Department, arguments: Arguments) -> str:
    return _line(department, _row(records, department, cast("int", arguments["key"])))


def _list(records: Database, department: Department, arguments: Arguments) -> str:
    return _lines(department, records.rows(department.table))


def _where(column: str) -> Callable[[Database, Department, Arguments], str]:
    def run(records: Database, department: Department, arguments: Arguments) -> str:
        return _lines(department, records.rows(department.table, **{column: cast("Cell", arguments[column])}))

    return run


def _count(records: Database, department: Department, arguments: Arguments) -> str:
    return str(len(records.rows(department.table, status=cast("Cell", arguments["status"]))))


def _total(records: Database, department: Department, arguments: Arguments) -> str:
    return str(sum(cast("int", row[department.number]) for row in records.rows(department.table)))


def _highest(records: Database, department: Department, arguments: Arguments) -> str:
    rows = records.rows(department.table)
    return _lines(department, sorted(rows, key=lambda row: -cast("int", row[department.number]))[:1])


def _set_number(records: Database, department: Department, arguments: Arguments) -> str:
    value = cast("int", arguments["value"])
    if not 1 <= value <= 1_000_000:
        raise ToolError(f"not_allowed: a {department.number} is 1 to 1000000")
    return _changed(records, department, arguments, **{department.number: value})


def _set_staff(records: Database, department: Department, arguments: Arguments) -> str:
    staff = str(arguments["staff"])
    if not staff.isalpha():
        raise ToolError("not_allowed: a name is of letters")
    return _changed(records, department, arguments, staff=staff)


def _status_to(status: str) -> Callable[[Database, Department, Arguments], str]:
    def run(records: Database, department: Department, arguments: Arguments) -> str:
        return _changed(records, department, arguments, status=status)

    return run


def _changed(records: Database, department: Department, arguments: Arguments, **cells: Cell) -> str:
    key = cast("int", arguments["key"])
    if _row(records, department, key)["status"] != "open":
        raise ToolError(f"not_allowed: {department.thing} {key} is not open")
    records.change(department.table, key, **cells)
    return _line(department, _row(records, department, key))


def _row(records: Database, department: Department, key: int) -> Mapping[str, Cell]:
    row = records.row(department.table, key)
    if row is None:
        raise ToolError(f"not_found: no {department.thing} {key}")
    return row


def _line(department: Department, row: Mapping[str, Cell]) -> str:
    number = department.number
    who = f"patient {row['patient']}, {number} {row[number]}, {row['staff']}, {row['status']}"
    return f"{department.thing} {row['id']}: {who}"


def _lines(department: Department, rows: Sequence[Mapping[str, Cell]]) -> str:
    return "\n".join(_line(department, row) for row in rows) or "none"
