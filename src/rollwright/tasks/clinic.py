"""Requests to a clinic of ten departments, each with records of its own, judged by the records at the end.

    set      "Set the dose of prescription 482 to 12."
    hand on  "Give scan 513 to whoever has scan 482."
    close    "Cancel the booking of patient 7 that is still open." The record is found, not named.

A request names its department by what it is about; which of the many tools fit is for the policy to find.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, fill_splits
from rollwright.tasks.tables import Change, Table

__all__ = ["DEPARTMENTS", "STATUSES", "Department", "clinic_strata"]

SOURCE = "clinic"
STATUSES = ("open", "done", "cancelled")
_BUILDER = 1
_STAFF = ("amir", "bea", "carl", "dora", "emil", "fay", "gus", "hana")
_ROWS = 4
"""Records of a department."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """A domain of tools over one table."""

    name: str
    thing: str
    """What a record is."""
    number: str
    """What is counted in it."""

    @property
    def table(self) -> str:
        """Of its records: `id`, `patient`, the number, `staff`, `status`."""
        return f"clinic.{self.name}"


DEPARTMENTS: Mapping[str, Department] = MappingProxyType(
    {
        name: Department(name=name, thing=thing, number=number)
        for name, thing, number in (
            ("pharmacy", "prescription", "dose"),
            ("radiology", "scan", "minutes"),
            ("laboratory", "sample", "tubes"),
            ("surgery", "operation", "room"),
            ("nursing", "visit", "hour"),
            ("admissions", "booking", "bed"),
            ("billing", "invoice", "amount"),
            ("cardiology", "trace", "pulse"),
            ("therapy", "session", "exercises"),
            ("dietetics", "menu", "calories"),
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    text: str
    plan: tuple[tuple[str, Mapping[str, Json]], ...]
    change: Change


def clinic_strata(sizes: SplitSizes, *, departments: Sequence[str], seed: int) -> tuple[Stratum, ...]:
    """Requests, a stratum for each department.

    Args:
        sizes: distinct tasks wanted over all departments.
        departments: that requests are about; the records of all of these stand in every task.
        seed: of records and requests.

    Raises:
        TaskError: for a department that there is not.
    """
    if not departments or not set(departments) <= set(DEPARTMENTS):
        raise TaskError(f"departments are {list(departments)}; there are {', '.join(DEPARTMENTS)}")
    share = 1 / len(departments)
    part = SplitSizes(train=max(1, round(sizes.train * share)), held_out=round(sizes.held_out * share))
    revision = f"clinic:{digest([_BUILDER, list(departments), seed])[:16]}"
    strata: list[Stratum] = []
    for name in departments:
        source = fill_splits(_payloads(name, departments, seed), part, name=SOURCE, revision=revision)
        strata.append(Stratum(name=name, weight=share, train=source.train, held_out=source.held_out))
    return tuple(strata)


def _payloads(name: str, departments: Sequence[str], seed: int) -> Iterator[Payload]:
    chance, department = Random(seed_of(seed, SOURCE, name)), DEPARTMENTS[name]
    while True:
        tables = {DEPARTMENTS[one].table: _records(DEPARTMENTS[one], chance) for one in departments}
        draft = chance.choice(_FAMILIES)(department, tables[department.table], chance)
        info: dict[str, Json] = {
            "slice": name,
            "initial": {table: held.json() for table, held in tables.items()},
            "changes": [draft.change.json()],
            "plan": [{"tool": tool, "arguments": arguments} for tool, arguments in draft.plan],
        }
        yield Payload(messages=(Message(role="user", text=draft.text),), answer="done", info=info)


def _records(department: Department, chance: Random) -> Table:
    keys = sorted(chance.sample(range(100, 1_000), _ROWS))
    patients = chance.sample(range(1, 100), _ROWS)
    return Table(
        columns=("id", "patient", department.number, "staff", "status"),
        rows={
            key: (key, patient, chance.randint(1, 99), chance.choice(_STAFF), "open")
            for key, patient in zip(keys, patients, strict=True)
        },
    )


def _set(department: Department, records: Table, chance: Random) -> _Draft:
    key = chance.choice(sorted(records.rows))
    held = records.row(key)[department.number]
    value = chance.choice([number for number in range(1, 100) if number != held])
    tool = f"{department.name}_set_{department.number}"
    return _Draft(
        text=f"Set the {department.number} of {department.thing} {key} to {value}.",
        plan=((tool, {"key": key, "value": value}),),
        change=Change(table=department.table, key=key, cells={department.number: value}),
    )


def _hand_on(department: Department, records: Table, chance: Random) -> _Draft:
    pairs = [(a, b) for a in records.rows for b in records.rows if records.row(a)["staff"] != records.row(b)["staff"]]
    if not pairs:
        return _set(department, records, chance)
    key, other = chance.choice(sorted(pairs))
    staff = str(records.row(other)["staff"])
    return _Draft(
        text=f"Give {department.thing} {key} to whoever has {department.thing} {other}.",
        plan=(
            (f"{department.name}_get", {"key": other}),
            (f"{department.name}_set_staff", {"key": key, "staff": staff}),
        ),
        change=Change(table=department.table, key=key, cells={"staff": staff}),
    )


def _close(department: Department, records: Table, chance: Random) -> _Draft:
    key = chance.choice(sorted(records.rows))
    patient = records.row(key)["patient"]
    return _Draft(
        text=f"Cancel the {department.thing} of patient {patient}.",
        plan=(
            (f"{department.name}_of_patient", {"patient": patient}),
            (f"{department.name}_cancel", {"key": key}),
        ),
        change=Change(table=department.table, key=key, cells={"status": "cancelled"}),
    )


_FAMILIES: tuple[Callable[[Department, Table, Random], _Draft], ...] = (_set, _hand_on, _close)
