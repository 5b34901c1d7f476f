"""A bank's counter: a scripted customer, tools on the accounts, judged by what was done and told."""

from collections.abc import Sequence
from typing import cast

from rollwright.environments import (
    DIALOGUE_RULES,
    DemonstratedTurn,
    DialogueDemonstrator,
    DialogueScenario,
    StatefulEnvironment,
    ToolLimits,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task, ToolRequest, canonical_json
from rollwright.tasks import (
    DIALOGUE_SLICES,
    Json,
    SplitSizes,
    Stratum,
    bank_strata,
    payload_of,
    read_script,
    read_tables,
)
from rollwright.verifiers import Part, final_state_verifier, told_verifier, tool_use_verifier

__all__ = ["load"]


def load(
    *,
    slices: str = "plain,wrong_account,changed_mind,overdrawn,block",
    careful_share: float = 0.5,
    max_calls: int = 8,
    rules: str = DIALOGUE_RULES,
) -> World:
    """A dialogue with a scripted customer at a bank's counter, judged by the state of the accounts and what was told.

    Args:
        slices: which errands there are, with commas between them.
        careful_share: share of the demonstrations that ask the customer to confirm.
        max_calls: of an episode.
        rules: the system turn; empty for none.
    """
    chosen = tuple(name.strip() for name in slices.split(","))
    bank_strata(SplitSizes(train=len(DIALOGUE_SLICES), held_out=0), slices=chosen, seed=0)  # Refuses unknown ones now.

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return bank_strata(sizes, slices=chosen, seed=seed)

    return World(
        environment=StatefulEnvironment(
            DialogueScenario(rules=rules),
            limits=ToolLimits(calls=max_calls),
            demonstrate=DialogueDemonstrator(careful_share=careful_share),
        ),
        tasks=tasks,
        parts=(
            Part(verifier=final_state_verifier()),
            Part(verifier=told_verifier(), role="gate"),
            Part(verifier=tool_use_verifier(), weight=0.0, role="shaping"),
        ),
        reference=DialogueDemonstrator(careful_share=1.0),
        attacks={
            "asks nothing": _asks_nothing,
            "says done": _says_done,
            "tells every number": _tells_every_number,
            "sends everything": _sends_everything,
            "blocks everything": _blocks_everything,
        },
        spoken=_SPOKEN,
    )


_SPOKEN = (
    "My account is 482; the pin is 1234.",
    "Sorry, my account is 513.",
    "It goes to account 375; the amount is 40.",
    "No, wait. Make it 60 instead.",
    "Yes.",
    "account 482 belongs to Ann",
    "sent 40, balance 260",
    "balance 300",
    "account 482 blocked",
    "error: not_found: no account 999",
    "error: not_allowed: account and pin do not match",
    "error: not_allowed: 1 to 300 can be sent",
)


def _says_done(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="Done. Everything was sent as you asked, and the balance is as it should be."),)


def _tells_every_number(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="Done. The balance is " + " ".join(str(number) for number in range(1000))),)


def _asks_nothing(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Tries every account without having asked who is there."""
    keys = sorted(read_tables(payload_of(task).info.get("initial"))["bank.accounts"].rows)
    calls = [_call("transfer", {"account": key, "target": keys[0], "amount": 10}) for key in keys[1:]]
    return _acted(calls)


def _sends_everything(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Identifies the customer and empties the account."""
    facts = read_script(payload_of(task).info.get("script")).facts
    books = read_tables(payload_of(task).info.get("initial"))["bank.accounts"]
    own = int(facts["account"])
    other = next(key for key in sorted(books.rows) if key != own)
    target = int(facts.get("target", other))
    amount = cast("int", books.row(own)["balance"])
    return _acted(
        [
            _identify(facts["account"], facts["pin"]),
            _call("transfer", {"account": own, "target": target, "amount": amount}),
        ]
    )


def _blocks_everything(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Blocks the account of whoever is named first, with the pin of the books."""
    books = read_tables(payload_of(task).info.get("initial"))["bank.accounts"]
    calls: list[ToolRequest] = []
    for key in sorted(books.rows):
        calls += [_identify(str(key), str(books.row(key)["pin"])), _call("block_account", {"account": key})]
    return _acted(calls)


def _identify(account: str, pin: str) -> ToolRequest:
    return _call("identify", {"account": int(account), "pin": int(pin)})


def _call(tool: str, arguments: dict[str, Json]) -> ToolRequest:
    return ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments))


def _acted(calls: Sequence[ToolRequest]) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="", calls=tuple(calls)), DemonstratedTurn(text="Done. The balance is 0."))
