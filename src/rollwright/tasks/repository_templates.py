"""The small packages that repository tasks are made of: right sources, ways to break them, and what to call.

Words between `@` are filled in for each task: `@PKG@`, the package; `@A@` and `@B@`, two numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from rollwright.tasks.payload import Json

__all__ = ["TEMPLATES", "Bug", "Template"]

ArgumentsFn = Callable[[Random, int, int], list[Json]]
"""(chance, A, B) to the arguments of one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """One way to break a package."""

    module: str
    right: str
    """Stands once in the right source."""
    wrong: str
    symptom: str
    """What a user reports: it says what goes wrong, not where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A package."""

    modules: MappingProxyType[str, str]
    """Name to source."""
    bugs: tuple[Bug, ...]
    probes: MappingProxyType[str, ArgumentsFn]
    """`module:function` to arguments."""
    a: tuple[int, int]
    """Bounds of @A@."""
    b: tuple[int, int]


_PRICES = '''\
"""What a cart costs."""


def line_total(price, count):
    """Price of one line; `price` and the result are in cents."""
    if count < 0:
        raise ValueError("count must not be negative")
    return price * count


def discount(total):
    """Cents off: @B@ percent from @A@ cents on, rounded down."""
    if total >= @A@:
        return total * @B@ // 100
    return 0
'''
_CART = '''\
"""Carts: a list of (price, count) lines."""

from @PKG@.prices import discount, line_total


def subtotal(lines):
    """Sum of all lines, in cents."""
    total = 0
    for price, count in lines:
        total += line_total(price, count)
    return total


def total(lines):
    """What is paid."""
    amount = subtotal(lines)
    return amount - discount(amount)


def dearest(lines):
    """The line that costs most; the earlier of two equal ones, None for an empty cart."""
    best = None
    for line in lines:
        if best is None or line_total(*line) > line_total(*best):
            best = line
    return None if best is None else list(best)
'''
_SPANS = '''\
"""Spans of time: [start, end], whole minutes."""


def merge(spans):
    """Join spans that overlap or lie at most @A@ minutes apart; sorted by start."""
    merged = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= @A@:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def overlap(one, other):
    """Minutes that two spans share."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
'''
_CALENDAR = '''\
"""What a day of spans adds up to."""

from @PKG@.spans import merge, overlap


def busy(spans):
    """Minutes covered by at least one span, short gaps included."""
    return sum(end - start for start, end in merge(spans))


def is_free(spans, start, end):
    """Whether a span of at least @B@ minutes touches nothing."""
    if end - start < @B@:
        return False
    return all(overlap(span, [start, end]) == 0 for span in spans)


def gaps(spans):
    """The spans between merged spans."""
    merged = merge(spans)
    return [[one[1], other[0]] for one, other in zip(merged, merged[1:])]
'''
_WORDS = '''\
"""Words of a text."""


def words(text):
    """Lower-case words without surrounding punctuation; empty ones are left out."""
    stripped = [word.strip(".,;:!?").lower() for word in text.split()]
    return [word for word in stripped if word]


def shorten(text, width=@A@):
    """At most `width` characters, the last three of them dots where something was cut."""
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."
'''
_INDEX = '''\
"""Titles and counts."""

from @PKG@.words import shorten, words


def slug(title):
    """Words joined by dashes."""
    return "-".join(words(title))


def counts(text):
    """Word to number, for words of at least @B@ letters."""
    found = {}
    for word in words(text):
        if len(word) >= @B@:
            found[word] = found.get(word, 0) + 1
    return found


def heading(title):
    """The shortened title, its first letter a capital."""
    text = shorten(" ".join(title.split()))
    return text[:1].upper() + text[1:]
'''
_SERIES = '''\
"""Numbers in order of time."""


def median(values):
    """The middle value; the mean of the two middle ones where their number is even."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        raise ValueError("no values")
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def windows(values, size=@A@):
    """All runs of `size` neighbors."""
    return [values[at : at + size] for at in range(len(values) - size + 1)]
'''
_ALARMS = '''\
"""When a series is out of bounds."""

from @PKG@.series import median, windows


def peaks(values):
    """Places that are higher than both neighbors."""
    return [at for at in range(1, len(values) - 1) if values[at - 1] < values[at] > values[at + 1]]


def smoothed(values):
    """The median of each window."""
    return [median(window) for window in windows(values)]


def alarms(values, limit=@B@):
    """Places where the value is `limit` or more above the median of all."""
    middle = median(values)
    return [at for at, value in enumerate(values) if value - middle >= limit]
'''


def _lines(chance: Random, a: int, b: int) -> list[Json]:
    lines: list[Json] = [[chance.randint(1, a // 3), chance.randint(1, 4)] for _ in range(chance.randint(0, 4))]
    if chance.random() < 0.4:
        first = chance.randint(1, a - 1)
        lines = [[first, 1], [a - first, 1]]  # Exactly the bound.
    if chance.random() < 0.3:
        price = chance.randint(a // 3, a)
        lines = [*lines, [price, 2], [2 * price, 1]]  # Two lines of one price.
    return [lines]


def _spans(chance: Random, a: int, b: int) -> list[Json]:
    spans: list[Json] = []
    place = chance.randint(0, 60)
    for _ in range(chance.randint(1, 5)):
        length = chance.randint(5, 60)
        spans.append([place, place + length])
        place += chance.choice((length + a, length + a + 1, length // 2, 1, length + 30))
    chance.shuffle(spans)
    return [spans]


def _two_spans(chance: Random, a: int, b: int) -> list[Json]:
    start, other = chance.randint(0, 50), chance.randint(0, 90)
    return [[start, start + chance.randint(1, 60)], [other, other + chance.randint(1, 60)]]


def _wanted_span(chance: Random, a: int, b: int) -> list[Json]:
    spans = _spans(chance, a, b)[0]
    start = chance.randint(0, 200)
    return [spans, start, start + chance.choice((b - 1, b, b + 20))]


_VOCABULARY = ("Rain", "river", "a", "Stone,", "of", "Glass!", "the", "open", "field;", "-", "light", "?", "It's", "so")


def _text(chance: Random, a: int, b: int) -> list[Json]:
    return [" ".join(chance.choice(_VOCABULARY) for _ in range(chance.randint(0, 12)))]


def _long_text(chance: Random, a: int, b: int) -> list[Json]:
    return [chance.choice("efghij") * (a + chance.choice((-2, -1, 0, 0, 1, 9)))]


def _title(chance: Random, a: int, b: int) -> list[Json]:
    return [" ".join(chance.choice(_VOCABULARY) for _ in range(chance.randint(1, 4)))]


def _values(chance: Random, a: int, b: int) -> list[Json]:
    values: list[Json] = [chance.randint(0, 3 * b) for _ in range(chance.randint(1, 9))]
    if chance.random() < 0.3:
        values = [0, b, 0, 0, b]
    return [values]


TEMPLATES: MappingProxyType[str, Template] = MappingProxyType(
    {
        "cart": Template(
            modules=MappingProxyType({"prices": _PRICES, "cart": _CART}),
            bugs=(
                Bug(
                    module="prices",
                    right="if total >= @A@:",
                    wrong="if total > @A@ + 1:",
                    symptom="Carts of exactly @A@ cents, and some that are dearer, get no discount.",
                ),
                Bug(
                    module="prices",
                    right="return total * @B@ // 100",
                    wrong="return total // 100 * @B@",
                    symptom="The discount of an odd amount is a few cents too small.",
                ),
                Bug(
                    module="cart",
                    right="        total += line_total(price, count)",
                    wrong="        total = line_total(price, count)",
                    symptom="The subtotal of a cart with several lines is too low.",
                ),
                Bug(
                    module="cart",
                    right="line_total(*line) > line_total(*best)",
                    wrong="line_total(*line) >= line_total(*best)",
                    symptom="Of two lines that cost the same, the dearest is said to be the later one.",
                ),
                Bug(
                    module="cart",
                    right="return amount - discount(amount)",
                    wrong="return amount - discount(len(lines))",
                    symptom="Nobody gets a discount on a whole cart.",
                ),
            ),
            probes=MappingProxyType(
                {
                    "prices:discount": lambda chance, a, b: [a + chance.choice((-1, 0, 7, 155, -a // 2))],
                    "prices:line_total": lambda chance, a, b: [chance.randint(1, 500), chance.randint(-1, 6)],
                    "cart:subtotal": _lines,
                    "cart:total": _lines,
                    "cart:dearest": _lines,
                }
            ),
            a=(1000, 9000),
            b=(5, 30),
        ),
        "calendar": Template(
            modules=MappingProxyType({"spans": _SPANS, "calendar": _CALENDAR}),
            bugs=(
                Bug(
                    module="spans",
                    right="start - merged[-1][1] <= @A@",
                    wrong="start - merged[-1][1] < @A@",
                    symptom="Spans that lie exactly @A@ minutes apart are not joined.",
                ),
                Bug(
                    module="spans",
                    right="merged[-1][1] = max(merged[-1][1], end)",
                    wrong="merged[-1][1] = end",
                    symptom="A short span inside a long one cuts the long one off.",
                ),
                Bug(
                    module="spans",
                    right="for start, end in sorted(spans):",
                    wrong="for start, end in spans:",
                    symptom="The order in which spans are given changes the result.",
                ),
                Bug(
                    module="calendar",
                    right="if end - start < @B@:",
                    wrong="if end - start <= @B@:",
                    symptom="A free span of exactly @B@ minutes is refused.",
                ),
                Bug(
                    module="calendar",
                    right="[[one[1], other[0]] for",
                    wrong="[[one[0], other[0]] for",
                    symptom="Gaps begin too early.",
                ),
            ),
            probes=MappingProxyType(
                {
                    "spans:merge": _spans,
                    "spans:overlap": _two_spans,
                    "calendar:busy": _spans,
                    "calendar:is_free": _wanted_span,
                    "calendar:gaps": _spans,
                }
            ),
            a=(2, 15),
            b=(10, 45),
        ),
        "words": Template(
            modules=MappingProxyType({"words": _WORDS, "index": _INDEX}),
            bugs=(
                Bug(
                    module="words",
                    right='.strip(".,;:!?").lower()',
                    wrong='.strip(".,;:!?")',
                    symptom="Words with a capital are counted apart.",
                ),
                Bug(
                    module="words",
                    right="[word for word in stripped if word]",
                    wrong="list(stripped)",
                    symptom="A mark that stands alone gives an empty word.",
                ),
                Bug(
                    module="words",
                    right="text[: width - 3]",
                    wrong="text[:width]",
                    symptom="Shortened texts are longer than they may be.",
                ),
                Bug(
                    module="words",
                    right="if len(text) <= width:",
                    wrong="if len(text) < width:",
                    symptom="A text of exactly the allowed length is cut.",
                ),
                Bug(
                    module="index",
                    right="if len(word) >= @B@:",
                    wrong="if len(word) > @B@:",
                    symptom="Words of exactly @B@ letters are missing from the counts.",
                ),
                Bug(
                    module="index",
                    right="text[:1].upper() + text[1:]",
                    wrong="text.capitalize()",
                    symptom="Headings lose their capitals inside.",
                ),
            ),
            probes=MappingProxyType(
                {
                    "words:words": _text,
                    "words:shorten": _long_text,
                    "index:slug": _text,
                    "index:counts": _text,
                    "index:heading": _title,
                }
            ),
            a=(12, 40),
            b=(2, 5),
        ),
        "series": Template(
            modules=MappingProxyType({"series": _SERIES, "alarms": _ALARMS}),
            bugs=(
                Bug(
                    module="series",
                    right="return (ordered[middle - 1] + ordered[middle]) / 2",
                    wrong="return ordered[-middle]",
                    symptom="The median of an even number of values is too high.",
                ),
                Bug(
                    module="series",
                    right="ordered = sorted(values)",
                    wrong="ordered = list(values)",
                    symptom="The median depends on the order of the values.",
                ),
                Bug(
                    module="series",
                    right="range(len(values) - size + 1)",
                    wrong="range(len(values) - size)",
                    symptom="The last window is missing.",
                ),
                Bug(
                    module="alarms",
                    right="value - middle >= limit",
                    wrong="value - middle > limit",
                    symptom="A value exactly @B@ above the median raises no alarm.",
                ),
                Bug(
                    module="alarms",
                    right="values[at - 1] < values[at] > values[at + 1]",
                    wrong="values[at - 1] <= values[at] > values[at + 1]",
                    symptom="The end of a plateau is reported as a peak.",
                ),
            ),
            probes=MappingProxyType(
                {
                    "series:median": _values,
                    "series:windows": _values,
                    "alarms:peaks": _values,
                    "alarms:smoothed": _values,
                    "alarms:alarms": _values,
                }
            ),
            a=(2, 4),
            b=(3, 12),
        ),
    }
)
"""By name."""
