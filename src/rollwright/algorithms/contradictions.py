"""What contradicts itself in a composition, seen from what the catalogue says of its parts.

Facts of a part (`catalogue/entries.py`) say what it reads, weighs or already covers. What the catalogue does not know,
such as parts of others, is tried on a small batch by `validation.py` instead.
"""

from collections import Counter
from collections.abc import Iterator

from rollwright.algorithms.catalogue import Fact
from rollwright.algorithms.describe import Description, PartDescription

__all__ = ["contradictions_of"]

_PREFIX = "M38"
"""The method of ratios up to each token."""
_EXCLUSIVE_RULES = frozenset({"exclude_truncated", "punish_truncated"})
"""Each sets a truncated row's reward, so that the other one is without effect."""


def contradictions_of(description: Description) -> list[str]:
    """Every reason for which a composition means something else than it says.

    Args:
        description: of the objective.

    Returns:
        Sentences that name the parts and the way out; empty for a composition without contradiction.
    """
    return [
        *_in_divergence(description),
        *_in_correction(description),
        *_in_keep(description),
        *_in_rows(description),
        *_in_credit(description),
        *_in_regularizers(description),
    ]


def _in_divergence(description: Description) -> Iterator[str]:
    rewarding = _with_fact(description, "kl_in_reward")
    losing = [one for one in _with_fact(description, "kl_in_loss") if one.role == "regularizer"]
    if rewarding and losing:
        yield (
            f"{description.name} has a KL to the reference in the reward ({_short(rewarding[0])}) and in the loss "
            f"({losing[0].place}): it would count twice. Take one of them out."
        )
    if len(losing) > 1:
        places = ", ".join(one.place for one in losing)
        yield (
            f"{description.name} has {len(losing)} terms with a KL to the reference ({places}): it counts "
            "more than once. Keep one of them."
        )


def _in_correction(description: Description) -> Iterator[str]:
    ratio, correction, surrogate, credit = (
        _of(description, role) for role in ("ratio", "correction", "surrogate", "credit")
    )
    correcting = _holds(correction, "corrects_staleness") or _holds(correction, "corrects_update")
    if correcting is not None and (covering := _holds(ratio, "covers_staleness")) is not None:
        yield (
            f"{description.name} divides by behavior in its ratio ({_short(covering)}) and corrects by it once more "
            f"({_short(correcting)}): staleness would be corrected twice. Take a ratio over proximal, or "
            "`no_correction`."
        )
    if correcting is not None and (own := _holds(surrogate, "corrects_staleness")) is not None:
        yield (
            f"the surrogate of {description.name} ({_short(own)}) weighs by current over behavior itself, and "
            f"{_short(correcting)} corrects once more: take `no_correction`."
        )
    weighing = _holds(credit, "corrects_staleness")
    again = correcting or _holds(ratio, "covers_staleness") or _holds(surrogate, "corrects_staleness")
    if weighing is not None and again is not None:
        yield (
            f"the credit of {description.name} ({_short(weighing)}) weighs its advantages by proximal over behavior, "
            f"and {_short(again)} corrects once more: take a ratio over proximal and `no_correction`."
        )
    moving = _holds(correction, "corrects_update")
    reads_ratio = surrogate.method is not None and _holds(surrogate, "reads_no_ratio") is None
    if moving is not None and reads_ratio and _holds(ratio, "covers_staleness") is None:
        yield (
            f"{description.name} weighs by current over behavior ({_short(moving)}) beside a surrogate of the ratio "
            f'({_short(surrogate)}): the update would count twice. Weigh by proximal (`of="proximal"`), or take a '
            "surrogate of the log-probability."
        )


def _in_keep(description: Description) -> Iterator[str]:
    keep = _of(description, "keep")
    for other in _of(description, "correction").walk():
        if other.role == "keep" and (other.name, other.numbers) != (keep.name, keep.numbers):
            yield (
                f"{description.name} keeps tokens by two rules: {_short(keep)} in the loss, and {_short(other)} in the "
                "mean that its correction divides by. Give both the same."
            )


def _in_rows(description: Description) -> Iterator[str]:
    surrogate, credit, ratio = (_of(description, role) for role in ("surrogate", "credit", "ratio"))
    varying, of_rows = _holds(credit, "token_credit"), _holds(surrogate, "row_advantage")
    if of_rows is not None and varying is not None:
        yield row_advantage_conflict(description.name, _short(of_rows), _short(varying))
    yield from _in_ratio(description.name, surrogate, ratio)
    if _holds(surrogate, "reads_no_ratio") is not None and ratio.method is not None:
        yield (
            f"the surrogate of {description.name} ({_short(surrogate)}) reads no ratio, so {_short(ratio)} is without "
            "effect: take `no_ratio`, or a surrogate of the ratio."
        )


def _in_ratio(objective: str, surrogate: PartDescription, ratio: PartDescription) -> Iterator[str]:
    """Prefix ratios alone; what is one ratio a row is tried, so that ratios of others are seen too."""
    if (clip := _holds(surrogate, "takes_prefix_ratio")) is None or ratio.method is None:
        return
    if ratio.method != _PREFIX:
        yield (
            f"the surrogate of {objective} ({_short(clip)}) takes the ratio up to each token, but the ratio is "
            f"{_short(ratio)}: its band widens with the position and would say nothing. Take `prefix_ratio`."
        )
    elif clip.numbers["power"].startswith("-") and _short(ratio) == "prefix_ratio":
        yield (
            f"the band of {objective} narrows with the position (power {clip.numbers['power']}), which is that of the "
            "geometric mean: take `prefix_mean_ratio`, or a power above 0."
        )


def _in_credit(description: Description) -> Iterator[str]:
    names = [_short(one) for one in _of(description, "credit").walk() if one.method is not None]
    for name, count in Counter(names).items():
        if count > 1:
            yield f"the credit of {description.name} applies {name} {count} times, one around the other; apply it once."
    if len(rules := sorted(_EXCLUSIVE_RULES & set(names))) > 1:
        yield (
            f"the credit of {description.name} treats truncated rows by {' and by '.join(rules)}: one of them is "
            "without effect. Choose one."
        )


def _in_regularizers(description: Description) -> Iterator[str]:
    terms = description.of_role("regularizer")
    for method, count in Counter(one.method for one in terms if "kl_in_loss" not in one.facts).items():
        if method is not None and count > 1:
            places = ", ".join(one.place for one in terms if one.method == method)
            yield f"{description.name} has the same term {count} times ({places}); keep one of them."


def row_advantage_conflict(objective: str, surrogate: str, credit: str) -> str:
    """The sentence for a surrogate of whole rows under credit that differs along a row."""
    return (
        f"the surrogate of {objective} ({surrogate}) takes one advantage a row, but the credit ({credit}) gives tokens "
        "of a row different ones: take credit of whole rows, or a surrogate of tokens."
    )


def _of(description: Description, role: str) -> PartDescription:
    """The one part in a main role."""
    return next(one for one in description.parts if one.role == role and one.place == role)


def _with_fact(description: Description, fact: Fact) -> list[PartDescription]:
    return [one for one in description.walk() if fact in one.facts]


def _holds(part: PartDescription, fact: Fact) -> PartDescription | None:
    """The part with this fact among a part and those inside it."""
    return next((one for one in part.walk() if fact in one.facts), None)


def _short(part: PartDescription) -> str:
    return part.name.rpartition(":")[2]
