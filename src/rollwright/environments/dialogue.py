"""A bank's counter: the policy talks to a customer and works with tools on the accounts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import cast

from rollwright.environments.database import Database
from rollwright.environments.demonstration import DemonstratedTurn
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.schemas import Arguments, FunctionSchema, schema_of
from rollwright.environments.scripted_user import ScriptedUser
from rollwright.record import Message, Task, ToolRequest, canonical_json, digest, seed_of
from rollwright.tasks import Cell, Json, TaskError, UserScript, payload_of, read_script, read_tables

__all__ = ["DIALOGUE_RULES", "BankCounter", "DialogueDemonstrator", "DialogueScenario", "DialogueState"]

DIALOGUE_RULES = (
    "You serve a customer at a bank. Ask for what you need to know. Identify the customer before anything else. Before "
    "money is sent, repeat the details and ask the customer to confirm. If the money cannot be sent, tell the balance. "
    "When all is done, say so, and tell what is left."
)
_BEHAVIOR = 1
"""Of the counter's and the customer's rules; raised where one of them answers otherwise."""
_TRIES = 3


class BankCounter:
    """Each public method is a tool."""

    def __init__(self, books: Database, identified: Sequence[int] = (), failures: int = 0) -> None:
        self._books = books
        self._identified = set(identified)
        self._failures = failures

    def identify(self, account: int, pin: int) -> str:
        """Check that the customer is the owner of an account.

        Args:
            account: number of the account
            pin: the owner's
        """
        if self._failures >= _TRIES:
            raise ToolError("not_allowed: too many wrong tries")
        row = self._books.row("bank.accounts", account)
        if row is None:
            raise ToolError(f"not_found: no account {account}")
        if row["pin"] != pin:
            self._failures += 1
            raise ToolError("not_allowed: account and pin do not match")
        self._identified.add(account)
        return f"account {account} belongs to {row['owner']}"

    def get_balance(self, account: int) -> str:
        """Say how much is on an account.

        Args:
            account: number of the account
        """
        return f"balance {self._own(account)['balance']}"

    def transfer(self, account: int, target: int, amount: int) -> str:
        """Send money.

        Args:
            account: number of the customer's account
            target: number of the account that it goes to
            amount: how much, from 1
        """
        mine = self._own(account)
        theirs = self._books.row("bank.accounts", target)
        if theirs is None or target == account:
            raise ToolError(f"not_found: no other account {target}")
        held, other = mine["balance"], theirs["balance"]
        assert isinstance(held, int) and isinstance(other, int), "balances are whole numbers"
        if mine["status"] != "active" or theirs["status"] != "active":
            raise ToolError("not_allowed: an account is blocked")
        if not 0 < amount <= held:
            raise ToolError(f"not_allowed: 1 to {held} can be sent")
        self._books.change("bank.accounts", account, balance=held - amount)
        self._books.change("bank.accounts", target, balance=other + amount)
        self._books.insert("bank.transfers", source=account, target=target, amount=amount)
        return f"sent {amount}, balance {held - amount}"

    def block_account(self, account: int) -> str:
        """Block an account.

        Args:
            account: number of the account
        """
        self._own(account)
        self._books.change("bank.accounts", account, status="blocked")
        return f"account {account} blocked"

    def session(self) -> Mapping[str, Json]:
        """Who was identified, and how often that failed."""
        return {"identified": sorted(self._identified), "failures": self._failures}

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """By name."""
        return {t.__name__: t for t in (self.identify, self.get_balance, self.transfer, self.block_account)}

    def _own(self, account: int) -> Mapping[str, Cell]:
        row = self._books.row("bank.accounts", account)
        if row is None or account not in self._identified:
            raise ToolError(f"not_allowed: identify the owner of account {account} first")
        return row


class DialogueScenario:
    """A `Scenario`: accounts in a database, tools over them, and a customer who answers what is said without a call."""

    def __init__(self, *, rules: str = DIALOGUE_RULES) -> None:
        self._rules = rules
        blank = Database({})
        try:
            self._schemas = MappingProxyType(
                {name: schema_of(tool) for name, tool in BankCounter(blank).tools().items()}
            )
        finally:
            blank.close()

    @property
    def name(self) -> str:
        """In the tables."""
        return "dialogue"

    @property
    def revision(self) -> str:
        """Of tools, customer and rules."""
        return digest([_BEHAVIOR, self._rules])[:16]

    @property
    def schemas(self) -> Mapping[str, FunctionSchema]:
        """Of the counter's tools."""
        return self._schemas

    def open(self, task: Task, seed: int) -> "DialogueState":
        """The accounts and the customer as the task has them; the seed decides nothing."""
        info = payload_of(task).info
        user = ScriptedUser(script=read_script(info.get("script")))
        books = Database(read_tables(info.get("initial")))
        return DialogueState(books=books, counter=BankCounter(books), user=user, opening=self._opening(task))

    def restore(self, task: Task, seed: int, content: Json) -> "DialogueState":
        """Accounts, session and customer as they were kept."""
        if not isinstance(content, Mapping) or set(content) != {"tables", "writes", "session", "user"}:
            raise TaskError("a kept state has tables, writes, session and user")
        user = ScriptedUser.restored(read_script(payload_of(task).info.get("script")), content["user"])
        session = cast("Mapping[str, Json]", content["session"])
        writes = [(str(t), cast("int", k)) for t, k in cast("Sequence[Sequence[Json]]", content["writes"])]
        identified, failures = cast("Sequence[int]", session["identified"]), cast("int", session["failures"])
        books = Database(read_tables(content["tables"]), writes)
        counter = BankCounter(books, identified, failures)
        return DialogueState(books=books, counter=counter, user=user, opening=self._opening(task))

    def _opening(self, task: Task) -> tuple[Message, ...]:
        asked = payload_of(task).messages
        return (Message(role="system", text=self._rules), *asked) if self._rules else asked


class DialogueState:
    """An `EpisodeState`."""

    def __init__(
        self, *, books: Database, counter: BankCounter, user: ScriptedUser, opening: tuple[Message, ...]
    ) -> None:
        self._books = books
        self._counter = counter
        self._user = user
        self._opening = opening
        self._tools = counter.tools()

    def opening(self) -> tuple[Message, ...]:
        """Rules, and what the customer says first."""
        return self._opening

    def call(self, tool: str, arguments: Arguments) -> str:
        """Run a tool."""
        return self._tools[tool](**arguments)

    def reply(self, text: str) -> str | None:
        """The customer's answer."""
        return self._user.answer(text)

    def standing(self) -> Mapping[str, Json]:
        """Accounts, session and customer."""
        return {
            "tables": {name: table.json() for name, table in self._books.tables().items()},
            "session": self._counter.session(),
            "user": self._user.content(),
        }

    def content(self) -> Json:
        """The standing, and which rows were written."""
        return {**self.standing(), "writes": self._books.writes}

    def artifacts(self) -> Mapping[str, bytes]:
        """The final state."""
        return self._books.final_state()

    def close(self) -> None:
        """Close the database."""
        self._books.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueDemonstrator:
    """A `DemonstrateFn`: asks, identifies, asks for a confirmation, acts and tells; a share skips the confirmation."""

    careful_share: float = 1.0
    """Share of the demonstrations that ask for a confirmation and do what they are then told."""

    def __post_init__(self) -> None:
        """Refuse a share that is none."""
        if not 0 <= self.careful_share <= 1:
            raise EnvironmentSetupError(f"careful_share is {self.careful_share}; it must be in 0..1")

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns shown for a task."""
        info = payload_of(task).info
        script = read_script(info.get("script"))
        told = [str(one) for one in cast("Sequence[Json]", info.get("told", ()))]
        is_careful = Random(seed_of(seed, "demonstration", task.task_id)).random() < self.careful_share
        turns = _identifying(script)
        if "amount" in script.facts:
            return (*turns, *_paying(script, told, task, is_careful=is_careful))
        blocking = _turn(_call("block_account", account=script.facts["account"]))
        return (*turns, blocking, DemonstratedTurn(text="Done, it is blocked."))


def _identifying(script: UserScript) -> tuple[DemonstratedTurn, ...]:
    facts = script.facts
    asking = DemonstratedTurn(text="What are your account and pin?")
    right = _turn(_call("identify", account=facts["account"], pin=facts["pin"]))
    if script.first_account is None:
        return (asking, right)
    wrong = _turn(_call("identify", account=script.first_account, pin=facts["pin"]))
    return (asking, wrong, DemonstratedTurn(text="That is not right. What is your account?"), right)


def _paying(script: UserScript, told: Sequence[str], task: Task, *, is_careful: bool) -> tuple[DemonstratedTurn, ...]:
    facts, amount = script.facts, script.facts["amount"]
    turns = [DemonstratedTurn(text="To which account, and how much?")]
    if is_careful:
        turns.append(DemonstratedTurn(text=f"{amount} to {facts['target']}. Please confirm."))
        if script.new_amount is not None:
            amount = script.new_amount
            turns.append(DemonstratedTurn(text=f"{amount} to {facts['target']}. Please confirm."))
    turns.append(_turn(_call("transfer", account=facts["account"], target=facts["target"], amount=amount)))
    if not payload_of(task).info.get("changes"):
        turns.append(_turn(_call("get_balance", account=facts["account"])))
        return (*turns, DemonstratedTurn(text=f"That is not possible. The balance is {told[0]}."))
    left = str(int(told[0]) + int(script.new_amount or amount) - int(amount))
    return (*turns, DemonstratedTurn(text=f"Done. The balance is {left}."))


def _turn(call: ToolRequest) -> DemonstratedTurn:
    return DemonstratedTurn(text="", calls=(call,))


def _call(tool: str, **arguments: str) -> ToolRequest:
    given = {name: int(value) for name, value in arguments.items()}
    return ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(given))
