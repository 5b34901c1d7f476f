"""Why a token weighed nothing."""

from collections.abc import Iterator, Sequence
from typing import cast

from rollwright.evidence.why.answers import Fact
from rollwright.evidence.why.asking import Asked, Row, TokenPlace, text_of
from rollwright.evidence.why.words import origin_words, reason_words, state_words

__all__ = ["slot_fact", "untrained_facts"]


def untrained_facts(
    asked: Asked, place: TokenPlace, trajectory: Row, segment: Row, receipts: Sequence[Row]
) -> Iterator[Fact]:
    """The reason, from the nearest to the farthest: its place, its writer, its episode's purpose, its slot.

    Args:
        asked: the run.
        place: of the token.
        trajectory: its episode.
        segment: that holds it.
        receipts: of the segment, of whatever weight.
    """
    if asked.retention == "sums" and receipts:
        return
    if receipts:
        reason = next((str(r["untrained_reason"]) for r in receipts if r["untrained_reason"] is not None), None)
        if reason is not None:
            yield _fact(reason, f"nothing of its segment was trained ({reason}): {reason_words(reason)}")
        elif cast("int", segment["start"]) + place.index == 0:
            yield _fact(
                "opens its context", "it opens its context: nothing predicted it, so nothing can be learned of it"
            )
        else:
            yield _fact("weight 0", "its weight is 0: the denominator counts no token that the correction cut")
        return
    yield _no_receipt(asked, trajectory, segment)
    if trajectory["purpose"] == "train":
        fact = slot_fact(asked, trajectory)
        if fact is not None:
            yield fact


def slot_fact(asked: Asked, trajectory: Row) -> Fact | None:
    """What became of the slot of an episode; None where the ledger does not know it."""
    source = f"SELECT state FROM slots WHERE group_id = {trajectory['group_id']} AND slot = {trajectory['slot']}"
    row = asked.one(f"SELECT * FROM slots WHERE group_id = {trajectory['group_id']} AND slot = {trajectory['slot']}")
    if row is None:
        return None
    state = str(row["state"])
    words = [state_words(state)]
    if row["rule"] is not None:
        words.append(f"rule {row['rule']}")
    if row["successor"] is not None:
        words.append(f"again as group {row['successor']}")
    if row["trajectory_id"] is not None and row["trajectory_id"] != trajectory["trajectory_id"]:
        words.append(f"by another attempt, {row['trajectory_id']}")
    text = f"its slot is {state} since step {row['step']}: {', '.join(words)}"
    return Fact(name="slot", value=state, text=text, source=source)


def _no_receipt(asked: Asked, trajectory: Row, segment: Row) -> Fact:
    origin, policy = str(segment["origin"]), segment["policy"]
    pairs = [(row.origin, row.policy) for row in asked.folder.eligible]
    if (origin, policy) not in pairs:
        trained = " and ".join(sorted({origin_words(o, p) for o, p in pairs}))
        text = (
            f"it was written by {origin_words(origin)} (origin {origin}): the model reads such tokens and never learns "
            f"to write them; this run learns only from what was written by {trained}"
        )
        return _fact(f"origin {origin}", text)
    if trajectory["purpose"] in ("evaluation", "audit"):
        return _fact(
            str(trajectory["purpose"]), f"its episode is of purpose {trajectory['purpose']}, which trains nothing"
        )
    if trajectory["unscored_reason"] is not None and trajectory["purpose"] == "train":
        return _fact("unscored", f"its episode has no reward: {trajectory['unscored_reason']}")
    return _fact(
        "no receipt", f"no update has a receipt of it; its episode {text_of(str(trajectory['trajectory_id']))}"
    )


def _fact(value: str, text: str) -> Fact:
    return Fact(name="untrained", value=value, text=text)
