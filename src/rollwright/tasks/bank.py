"""Errands at a bank's counter: accounts, what a customer wants, and what the customer says when asked.

    plain          the customer says each fact when asked for it
    wrong_account  the first account number that the customer gives is not theirs; asked again, they look it up
    changed_mind   asked to confirm, the customer wants another amount
    overdrawn      the balance is too low: nothing is sent, and the balance has to be told
    block          an account is to be blocked

The script holds all that the customer knows; the policy sees of it what it asks for.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import cast

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, fill_splits
from rollwright.tasks.tables import Change, Table

__all__ = ["DIALOGUE_SLICES", "UserScript", "bank_strata", "read_script"]

SOURCE = "dialogue"
_BUILDER = 1
_OWNERS = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn")
_FACTS = ("account", "pin", "target", "amount")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScript:
    """What a scripted customer knows and does."""

    wish: str
    """Said first, and again when the agent is not understood."""
    facts: Mapping[str, str]
    """`account`, `pin`, `target`, `amount`: what is true; one that is not there does not matter to the wish."""
    first_account: str | None = None
    """What is given for the account at the first time of asking, where it is wrong."""
    new_amount: str | None = None
    """What is wanted instead when the customer is first asked to confirm."""
    patience: int = 3
    """Messages that are not understood before the customer leaves."""

    def json(self) -> Mapping[str, Json]:
        """For canonical JSON."""
        return {
            "wish": self.wish,
            "facts": self.facts,
            "first_account": self.first_account,
            "new_amount": self.new_amount,
            "patience": self.patience,
        }


def read_script(value: Json) -> UserScript:
    """Read a script from JSON.

    Raises:
        TaskError: where it is none.
    """
    if not isinstance(value, Mapping):
        raise TaskError("a script is a map of wish, facts, first_account, new_amount, patience")
    facts, patience = value.get("facts"), value.get("patience", 3)
    if not isinstance(facts, Mapping) or set(facts) - set(_FACTS) or type(patience) is not int or patience < 1:
        raise TaskError(f"a script needs facts of {', '.join(_FACTS)}, and a patience of at least 1")
    texts = [value.get("wish"), *facts.values(), *(value.get(n) or "" for n in ("first_account", "new_amount"))]
    if not all(isinstance(text, str) for text in texts) or not value.get("wish"):
        raise TaskError("the wish and all facts of a script are text")
    return UserScript(
        wish=cast("str", value["wish"]),
        facts=cast("Mapping[str, str]", facts),
        first_account=cast("str | None", value.get("first_account")),
        new_amount=cast("str | None", value.get("new_amount")),
        patience=patience,
    )


def bank_strata(sizes: SplitSizes, *, slices: tuple[str, ...], seed: int) -> tuple[Stratum, ...]:
    """The slices as strata of equal weight.

    Args:
        sizes: distinct tasks wanted over all slices.
        slices: of `DIALOGUE_SLICES`.
        seed: of accounts and wishes.

    Raises:
        TaskError: for a slice that there is not.
    """
    if unknown := [name for name in slices or ("",) if name not in DIALOGUE_SLICES]:
        raise TaskError(f"there is no slice {unknown[0]!r}; name some of {', '.join(DIALOGUE_SLICES)}")
    part = SplitSizes(train=max(1, sizes.train // len(slices)), held_out=sizes.held_out // len(slices))
    revision = f"dialogue:{digest([_BUILDER, seed])[:16]}"
    strata: list[Stratum] = []
    for name in slices:
        source = fill_splits(_payloads(name, seed), part, name=SOURCE, revision=revision)
        strata.append(Stratum(name=name, weight=1.0, train=source.train, held_out=source.held_out))
    return tuple(strata)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counter:
    """The bank as a customer comes in."""

    accounts: Mapping[int, tuple[int, str, int, int, str]]
    """id, owner, pin, balance, status."""
    own: int
    other: int

    @property
    def owner(self) -> str:
        return self.accounts[self.own][1]

    @property
    def pin(self) -> str:
        return str(self.accounts[self.own][2])

    @property
    def balance(self) -> int:
        return self.accounts[self.own][3]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errand:
    script: UserScript
    changes: tuple[Change, ...]
    told: tuple[str, ...]


def _payloads(slice_name: str, seed: int) -> Iterator[Payload]:
    number = 0
    while True:
        number += 1
        chance = Random(seed_of(seed, SOURCE, slice_name, number))
        counter = _counter(chance)
        errand = _ERRANDS[slice_name](counter, chance)
        accounts = Table(columns=("id", "owner", "pin", "balance", "status"), rows=counter.accounts)
        transfers = Table(columns=("id", "source", "target", "amount"))
        info: dict[str, Json] = {
            "slice": slice_name,
            "initial": {"bank.accounts": accounts.json(), "bank.transfers": transfers.json()},
            "changes": [change.json() for change in errand.changes],
            "told": errand.told,
            "script": errand.script.json(),
        }
        yield Payload(messages=(Message(role="user", text=errand.script.wish),), answer="done", info=info)


def _counter(chance: Random) -> _Counter:
    keys = chance.sample(range(100, 1000), 4)
    owners = chance.sample(_OWNERS, 4)
    accounts = {
        key: (key, owner, chance.randint(1000, 9999), chance.randint(100, 900), "active")
        for key, owner in zip(keys, owners, strict=True)
    }
    return _Counter(accounts=accounts, own=keys[0], other=keys[1])


def _sending(
    counter: _Counter, chance: Random, amount: int, *, after: int | None = None, account: str | None = None
) -> _Errand:
    """Money that is sent; `after` is what is wanted on second thoughts, `account` what is first given as one's own."""
    sent = amount if after is None else after
    target = counter.accounts[counter.other]
    left, bill = counter.balance - sent, chance.randint(1000, 9999)
    return _Errand(
        script=UserScript(
            wish=f"{counter.owner} here. I want to pay bill {bill} of {target[1]}. What is left then?",
            facts={"account": str(counter.own), "pin": counter.pin, "target": str(target[0]), "amount": str(amount)},
            first_account=account,
            new_amount=None if after is None else str(after),
        ),
        changes=(
            Change(table="bank.accounts", key=counter.own, cells={"balance": left}),
            Change(table="bank.accounts", key=counter.other, cells={"balance": target[3] + sent}),
            Change(
                table="bank.transfers", key=None, cells={"source": counter.own, "target": counter.other, "amount": sent}
            ),
        ),
        told=(str(left),),
    )


def _plain(counter: _Counter, chance: Random) -> _Errand:
    return _sending(counter, chance, chance.randint(10, 90))


def _wrong_account(counter: _Counter, chance: Random) -> _Errand:
    free = [number for number in range(100, 1000) if number not in counter.accounts]
    return _sending(counter, chance, chance.randint(10, 90), account=str(chance.choice(free)))


def _changed_mind(counter: _Counter, chance: Random) -> _Errand:
    amount, after = chance.sample(range(10, 91), 2)
    return _sending(counter, chance, amount, after=after)


def _overdrawn(counter: _Counter, chance: Random) -> _Errand:
    wanted = _sending(counter, chance, counter.balance + chance.randint(10, 90))
    return _Errand(script=wanted.script, changes=(), told=(str(counter.balance),))


def _block(counter: _Counter, chance: Random) -> _Errand:
    return _Errand(
        script=UserScript(
            wish=f"{counter.owner} here. I lost card {chance.randint(1000, 9999)}. Please block my account.",
            facts={"account": str(counter.own), "pin": counter.pin},
        ),
        changes=(Change(table="bank.accounts", key=counter.own, cells={"status": "blocked"}),),
        told=(),
    )


_ERRANDS: Mapping[str, Callable[[_Counter, Random], _Errand]] = MappingProxyType(
    {
        "plain": _plain,
        "wrong_account": _wrong_account,
        "changed_mind": _changed_mind,
        "overdrawn": _overdrawn,
        "block": _block,
    }
)
DIALOGUE_SLICES = tuple(_ERRANDS)
