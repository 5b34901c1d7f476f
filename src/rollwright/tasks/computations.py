"""Questions that a program answers, in five levels of what the program has to be.

    1  sums        two digits: a small model can do them alone, no program is needed
    2  products    products, sums and chains of several digits: the expression itself is the program
    3  remainders  quotients, remainders and remainders of powers, asked as expressions
    4  number theory  in words: greatest common divisors, divisors, digit sums
    5  searches    in words: sums over ranges with conditions, primes, sequences; a loop is needed

Each task carries in `info.code` a program that prints its answer, for the reference solver and for demonstrations. The
answers are worked out here by other means than by running that program.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.payload import Payload
from rollwright.tasks.source import SplitSizes, fill_splits

__all__ = ["COMPUTATION_LEVELS", "computation_strata"]

SOURCE = "computations"
_BUILDER = 1
"""Of the families below; part of the revision."""
_EASY_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    question: str
    code: str
    answer: int


def computation_strata(sizes: SplitSizes, *, lowest: int, highest: int, seed: int) -> tuple[Stratum, ...]:
    """The levels from `lowest` to `highest`, each a stratum; level 1 has a fifth of the weight, the others the rest.

    Args:
        sizes: distinct tasks wanted over all levels.
        lowest: first level, from 1.
        highest: last level, to 5.
        seed: of the numbers.

    Raises:
        TaskError: for levels that there are not.
    """
    levels = range(lowest, highest + 1)
    if not levels or lowest < 1 or highest > len(COMPUTATION_LEVELS):
        raise TaskError(f"levels {lowest} to {highest} are asked for; there are 1 to {len(COMPUTATION_LEVELS)}")
    revision = f"computations:{digest([_BUILDER, seed])[:16]}"
    strata: list[Stratum] = []
    for level in levels:
        weight = _weight(level, len(levels), has_easy=lowest == 1)
        part = SplitSizes(train=max(1, round(sizes.train * weight)), held_out=round(sizes.held_out * weight))
        source = fill_splits(_payloads(level, seed), part, name=SOURCE, revision=revision)
        name = COMPUTATION_LEVELS[level - 1]
        strata.append(Stratum(name=name, weight=weight, train=source.train, held_out=source.held_out))
    return tuple(strata)


def _weight(level: int, count: int, *, has_easy: bool) -> float:
    if not has_easy or count == 1:
        return 1 / count
    return _EASY_SHARE if level == 1 else (1 - _EASY_SHARE) / (count - 1)


def _payloads(level: int, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, SOURCE, level))
    name = COMPUTATION_LEVELS[level - 1]
    families = _FAMILIES[name]
    while True:
        for family in families:
            problem = family(chance)
            yield Payload(
                messages=(Message(role="user", text=problem.question),),
                answer=str(problem.answer),
                info={"slice": name, "level": level, "code": problem.code},
            )


def _expression(expression: str, answer: int) -> _Problem:
    return _Problem(question=f"What is {expression}?", code=f"print({expression})", answer=answer)


def _sum_of_digits(chance: Random) -> _Problem:
    a, b = chance.randint(1, 9), chance.randint(1, 9)
    return _expression(f"{a}+{b}", a + b) if chance.random() < 0.5 else _expression(f"{a}-{b}", a - b)


def _product(chance: Random) -> _Problem:
    a, b = chance.randint(100, 999), chance.randint(100, 999)
    return _expression(f"{a}*{b}", a * b)


def _difference(chance: Random) -> _Problem:
    a, b = chance.randint(100, 999), chance.randint(100, 999)
    return _expression(f"{a}-{b}", a - b) if chance.random() < 0.5 else _expression(f"{a}+{b}", a + b)


def _chain(chance: Random) -> _Problem:
    a, b, c = (chance.randint(10, 99) for _ in range(3))
    return _expression(f"{a}*({b}+{c})", a * b + a * c)


def _remainder(chance: Random) -> _Problem:
    a, b = chance.randint(100, 999), chance.randint(11, 99)
    return _expression(f"{a}%{b}", a - b * math.floor(a / b))


def _quotient(chance: Random) -> _Problem:
    a, b = chance.randint(1000, 9999), chance.randint(11, 99)
    return _expression(f"{a}//{b}", math.floor(a / b))


def _power_remainder(chance: Random) -> _Problem:
    a, b, c = chance.randint(2, 19), chance.randint(3, 19), chance.randint(11, 99)
    return _expression(f"{a}**{b}%{c}", pow(a, b, c))


def _common_divisor(chance: Random) -> _Problem:
    shared = chance.randint(2, 40)
    a, b = shared * chance.randint(11, 99), shared * chance.randint(11, 99)
    return _Problem(
        question=f"What is the greatest common divisor of {a} and {b}?",
        code=f"import math\nprint(math.gcd({a}, {b}))",
        answer=max(d for d in range(1, min(a, b) + 1) if a % d == 0 and b % d == 0),
    )


def _divisor_count(chance: Random) -> _Problem:
    number = chance.randint(100, 5000)
    return _Problem(
        question=f"How many positive divisors does {number} have?",
        code=f"print(sum({number} % d == 0 for d in range(1, {number} + 1)))",
        answer=math.prod(power + 1 for power in _factors(number).values()),
    )


def _digit_sum(chance: Random) -> _Problem:
    base, power = chance.randint(2, 19), chance.randint(12, 40)
    rest, total = base**power, 0
    while rest:
        rest, digit = divmod(rest, 10)
        total += digit
    return _Problem(
        question=f"What is the sum of the decimal digits of {base} to the power {power}?",
        code=f"print(sum(map(int, str({base}**{power}))))",
        answer=total,
    )


def _conditioned_sum(chance: Random) -> _Problem:
    end = chance.randint(200, 2000)
    a, b = chance.sample((3, 5, 7, 11, 13), 2)
    return _Problem(
        question=f"What is the sum of all whole numbers from 1 to {end} that are divisible by {a} but not by {b}?",
        code=f"print(sum(n for n in range(1, {end} + 1) if n % {a} == 0 and n % {b} != 0))",
        answer=a * _triangle(end // a) - a * b * _triangle(end // (a * b)),
    )


def _prime_sum(chance: Random) -> _Problem:
    end = chance.randint(50, 2000)
    lines = (
        "def is_prime(n):",
        "    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))",
        f"print(sum(n for n in range({end}) if is_prime(n)))",
    )
    return _Problem(
        question=f"What is the sum of all primes below {end}?",
        code="\n".join(lines),
        answer=sum(n for n in range(2, end) if _factors(n) == {n: 1}),
    )


def _hailstone(chance: Random) -> _Problem:
    start = chance.randint(10, 3000)
    steps, number = 0, start
    while number > 1:
        number, steps = (3 * number + 1 if number & 1 else number >> 1), steps + 1
    lines = (
        f"n, steps = {start}, 0",
        "while n != 1:",
        "    n = n // 2 if n % 2 == 0 else 3 * n + 1",
        "    steps += 1",
        "print(steps)",
    )
    return _Problem(
        question=f"Start with {start}. Halve an even number, replace an odd n by 3n+1. After how many steps is it 1?",
        code="\n".join(lines),
        answer=steps,
    )


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _factors(number: int) -> dict[int, int]:
    """Prime to power."""
    found: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    if number > 1:
        found[number] = found.get(number, 0) + 1
    return found


_FAMILIES: MappingProxyType[str, tuple[Callable[[Random], _Problem], ...]] = MappingProxyType(
    {
        "sums": (_sum_of_digits,),
        "products": (_product, _difference, _chain),
        "remainders": (_remainder, _quotient, _power_remainder),
        "number_theory": (_common_divisor, _divisor_count, _digit_sum),
        "searches": (_conditioned_sum, _prime_sum, _hailstone),
    }
)
COMPUTATION_LEVELS = tuple(_FAMILIES)
"""Names of the levels, from the first."""
