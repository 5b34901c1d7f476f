"""The default task: arithmetic in three slices, told apart by what a calculator is worth.

    easy    sums of two digits: a small model can do them alone, the tool is not needed
    hard    products, sums and chains of several digits: the tool is needed
    error   a division by zero that shows only once the divisor is worked out: the tool answers with an error, and the
            right answer is the word `undefined`

The numbers come from reasoning-gym's `chain_sum` and `products`. Its question texts are long and differ from generator
to generator; here the expression from the metadata is asked in one short form, so that a model whose tokenizer and
weights are made on the spot can learn to copy it. Divisions are built from a `chain_sum` whose value becomes the
divisor: `432/(47-29)` is hard and `432/(29-29)` an error. Gold answers are worked out here, exactly, and must agree
with the generator's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from types import MappingProxyType

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import ExpressionError, TaskError
from rollwright.tasks.expressions import EXPRESSIONS_REVISION, evaluate, number_text
from rollwright.tasks.gym import GymEntry, GymGenerator, gym_entries, gym_version
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.payload import Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["EASY", "ERROR", "HARD", "SLICES", "UNDEFINED", "ArithmeticShares", "arithmetic_strata", "gold_of"]

SOURCE = "arithmetic"
EASY, HARD, ERROR = "easy", "hard", "error"
SLICES = (EASY, HARD, ERROR)
UNDEFINED = "undefined"
"""The right answer where the expression has no value."""
_BUILDER = 2
"""Of the families below; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticShares:
    """How often each slice is drawn."""

    easy: float = 0.2
    hard: float = 0.65
    error: float = 0.15


def arithmetic_strata(sizes: SplitSizes, *, shares: ArithmeticShares, seed: int) -> tuple[Stratum, ...]:
    """The three slices, each a stratum with its own weight; a slice of weight 0 is left out.

    Args:
        sizes: distinct tasks wanted over all slices, divided as the shares say. The easy slice has 200 questions in
            all; what it cannot give, the last slice does.
        shares: of the slices in the drawing order.
        seed: of the numbers.
    """
    weights = {EASY: shares.easy, HARD: shares.hard, ERROR: shares.error}
    total = sum(weights.values())
    if total <= 0 or min(weights.values()) < 0:
        raise TaskError(f"the shares of the slices are {weights}; they must be at least 0 and not all 0")
    revision = f"arithmetic:{digest([_BUILDER, EXPRESSIONS_REVISION, gym_version(), seed])[:16]}"
    strata: list[Stratum] = []
    train, held_out = sizes.train, sizes.held_out
    for name, weight in weights.items():
        if weight > 0:
            # The last slice takes all that is left.
            part = SplitSizes(train=max(1, round(train * weight / total)), held_out=round(held_out * weight / total))
            source = _slice(name, part, revision=revision, seed=seed)
            strata.append(Stratum(name=name, weight=weight, train=source.train, held_out=source.held_out))
            total -= weight
            train, held_out = train - len(source.train), held_out - len(source.held_out)
    return tuple(strata)


def gold_of(expression: str) -> str:
    """The right answer: the value in decimal, or `undefined`."""
    try:
        return number_text(evaluate(expression))
    except ExpressionError as error:
        if str(error) == "division by zero":
            return UNDEFINED
        raise


# Thousands of tasks take half a second, and a process asks for the same ones again: to train, to check, to go on.
@lru_cache(maxsize=16)
def _slice(name: str, sizes: SplitSizes, *, revision: str, seed: int) -> TaskSource:
    payloads = (_payload(name, expression) for expression in _FAMILIES[name](seed))
    return fill_splits(payloads, sizes, name=SOURCE, revision=revision)


def _payload(name: str, expression: str) -> Payload:
    return Payload(
        messages=(Message(role="user", text=f"What is {expression}?"),),
        answer=gold_of(expression),
        info={"slice": name, "expression": expression},
    )


def _easy(seed: int) -> Iterator[str]:
    yield from _checked("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}, seed)


def _hard(seed: int) -> Iterator[str]:
    """Products, sums of two and three terms, and divisions, in turn; a rarer shape would not be learned to copy."""
    products = _checked("products", {"min_digits": 3, "max_digits": 3}, seed)
    sums = _checked("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 3, "max_digits": 3}, seed)
    chains = _checked("chain_sum", {"min_terms": 3, "max_terms": 3, "min_digits": 2, "max_digits": 2}, seed)
    chance = Random(seed_of(seed, SOURCE, HARD))
    for divisor in _divisors(seed):
        yield next(products)
        yield next(sums)
        yield next(chains)
        if (value := evaluate(divisor)) != 0:
            yield f"{int(abs(value)) * chance.randint(12, 99)}/({divisor})"


def _error(seed: int) -> Iterator[str]:
    chance = Random(seed_of(seed, SOURCE, ERROR))
    for divisor in _divisors(seed + 1):
        if evaluate(divisor) != 0:
            term = divisor.split("-")[0]
            yield f"{chance.randint(100, 9999)}/({term}-{term})"


def _divisors(seed: int) -> Iterator[str]:
    drawn = _checked("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 2, "max_digits": 2}, seed + 1)
    return (expression for expression in drawn if "-" in expression)


def _checked(generator: str, parameters: dict[str, int], seed: int) -> Iterator[str]:
    """Expressions without spaces whose value is what the generator says."""
    for entry in gym_entries(GymGenerator(name=generator, parameters=parameters, seed=seed)):
        yield _expression(entry)


def _expression(entry: GymEntry) -> str:
    written = entry.metadata["expression"]
    expression = str(written).replace(" ", "")
    if gold_of(expression) != entry.answer:
        raise TaskError(f"reasoning-gym says {written} = {entry.answer}; it is {gold_of(expression)}")
    return expression


_FAMILIES: MappingProxyType[str, Callable[[int], Iterator[str]]] = MappingProxyType(
    {EASY: _easy, HARD: _hard, ERROR: _error}
)
