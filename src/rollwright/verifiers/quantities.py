"""Numbers with units: reading them, and telling whether two of them are the same amount.

The table holds what school and science problems use. A word that it does not hold is a unit of its own ("5 apples"):
it equals itself and nothing else.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

from rollwright.verifiers.numbers import Number, NumberForm, read_number

__all__ = ["QUANTITIES_REVISION", "Quantity", "Unit", "is_known_unit", "read_quantity", "read_unit"]

QUANTITIES_REVISION = 1
"""Of the table and the grammar."""
_MAX_CHARACTERS = 200
_MAX_FACTORS = 8
_MAX_EXPONENT = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one of it is in base units."""

    factor: Fraction
    dimension: tuple[tuple[str, int], ...]
    """Base units with their exponents, sorted, none of them 0."""
    offset: Fraction = Fraction(0)
    """Added after the factor; of temperatures that stand alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An amount in base units."""

    number: Number
    dimension: tuple[tuple[str, int], ...]
    """Empty: a number without a unit."""


_BARE = Unit(factor=Fraction(1), dimension=())


def _unit(factor: str | int | Fraction, **dimension: int) -> Unit:
    return Unit(factor=Fraction(factor), dimension=tuple(sorted(dimension.items())))


_PREFIXES = {
    "Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "da": 1, "d": -1, "c": -2, "m": -3,
    "\N{MICRO SIGN}": -6, "\N{GREEK SMALL LETTER MU}": -6, "u": -6, "n": -9, "p": -12, "f": -15, "a": -18,
}  # fmt: skip
_PREFIX_WORDS = {
    "tera": 12, "giga": 9, "mega": 6, "kilo": 3, "hecto": 2, "deci": -1, "centi": -2, "milli": -3, "micro": -6,
    "nano": -9, "pico": -12,
}  # fmt: skip
_GRAM = Fraction(1, 1000)
_PREFIXABLE = {
    "m": _unit(1, m=1),
    "g": _unit(_GRAM, kg=1),
    "s": _unit(1, s=1),
    "A": _unit(1, A=1),
    "K": _unit(1, K=1),
    "mol": _unit(1, mol=1),
    "cd": _unit(1, cd=1),
    "N": _unit(1, kg=1, m=1, s=-2),
    "J": _unit(1, kg=1, m=2, s=-2),
    "W": _unit(1, kg=1, m=2, s=-3),
    "Pa": _unit(1, kg=1, m=-1, s=-2),
    "Hz": _unit(1, s=-1),
    "C": _unit(1, A=1, s=1),
    "V": _unit(1, kg=1, m=2, s=-3, A=-1),
    "\N{GREEK CAPITAL LETTER OMEGA}": _unit(1, kg=1, m=2, s=-3, A=-2),
    "\N{OHM SIGN}": _unit(1, kg=1, m=2, s=-3, A=-2),
    "F": _unit(1, kg=-1, m=-2, s=4, A=2),
    "T": _unit(1, kg=1, s=-2, A=-1),
    "Wb": _unit(1, kg=1, m=2, s=-2, A=-1),
    "H": _unit(1, kg=1, m=2, s=-2, A=-2),
    "L": _unit(Fraction(1, 1000), m=3),
    "l": _unit(Fraction(1, 1000), m=3),
    "M": _unit(1000, mol=1, m=-3),
    "eV": _unit(Fraction("1.602176634e-19"), kg=1, m=2, s=-2),
    "cal": _unit("4.184", kg=1, m=2, s=-2),
    "Wh": _unit(3600, kg=1, m=2, s=-2),
    "bar": _unit(100_000, kg=1, m=-1, s=-2),
    "B": _unit(8, bit=1),
    "bit": _unit(1, bit=1),
}
_PLAIN = {
    "t": _unit(1000, kg=1),
    "min": _unit(60, s=1),
    "h": _unit(3600, s=1),
    "hr": _unit(3600, s=1),
    "d": _unit(86_400, s=1),
    "ha": _unit(10_000, m=2),
    "in": _unit("0.0254", m=1),
    "ft": _unit("0.3048", m=1),
    "yd": _unit("0.9144", m=1),
    "mi": _unit("1609.344", m=1),
    "lb": _unit("0.45359237", kg=1),
    "lbs": _unit("0.45359237", kg=1),
    "oz": _unit("0.028349523125", kg=1),
    "gal": _unit("0.003785411784", m=3),
    "mph": _unit("0.44704", m=1, s=-1),
    "kph": _unit(Fraction(5, 18), m=1, s=-1),
    "kmh": _unit(Fraction(5, 18), m=1, s=-1),
    "atm": _unit(101_325, kg=1, m=-1, s=-2),
    "mmHg": _unit("133.322387415", kg=1, m=-1, s=-2),
    "u": _unit(Fraction("1.66053906660e-27"), kg=1),
    "KiB": _unit(8 * 2**10, bit=1),
    "MiB": _unit(8 * 2**20, bit=1),
    "GiB": _unit(8 * 2**30, bit=1),
    "%": _unit(1, percent=1),
    "\N{DEGREE SIGN}": _unit(1, degree=1),
    "rad": _unit(1, radian=1),
    "$": _unit(1, dollar=1),
    "\N{CENT SIGN}": _unit(Fraction(1, 100), dollar=1),
    "\N{EURO SIGN}": _unit(1, euro=1),
    "\N{POUND SIGN}": _unit(1, sterling=1),
}
_KELVIN_AT_ICE = Fraction("273.15")
_TEMPERATURES = {
    "\N{DEGREE SIGN}C": replace(_unit(1, K=1), offset=_KELVIN_AT_ICE),
    "\N{DEGREE SIGN}F": replace(_unit(Fraction(5, 9), K=1), offset=_KELVIN_AT_ICE - Fraction(160, 9)),
}
_WORDS = {
    "meter": "m", "metre": "m", "gram": "g", "gramme": "g", "second": "s", "ampere": "A", "amp": "A", "kelvin": "K",
    "mole": "mol", "candela": "cd", "newton": "N", "joule": "J", "watt": "W", "pascal": "Pa", "hertz": "Hz",
    "coulomb": "C", "volt": "V", "ohm": "\N{GREEK CAPITAL LETTER OMEGA}", "farad": "F", "tesla": "T", "weber": "Wb",
    "henry": "H", "liter": "L", "litre": "L", "calorie": "cal", "byte": "B", "bits": "bit", "electronvolt": "eV",
    "ton": "t", "tonne": "t", "minute": "min", "mins": "min", "hour": "h", "hrs": "h", "day": "d", "hectare": "ha",
    "inch": "in", "inches": "in", "foot": "ft", "feet": "ft", "yard": "yd", "mile": "mi", "pound": "lb",
    "ounce": "oz", "gallon": "gal", "percent": "%", "degree": "\N{DEGREE SIGN}", "radian": "rad", "dollar": "$",
    "cent": "\N{CENT SIGN}", "euro": "\N{EURO SIGN}", "sec": "s", "secs": "s", "cc": "cm3",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans(
    "\N{SUPERSCRIPT ONE}\N{SUPERSCRIPT TWO}\N{SUPERSCRIPT THREE}\N{SUPERSCRIPT FOUR}\N{SUPERSCRIPT MINUS}", "1234-"
)
_LATEX = (
    (re.compile(r"\\(?:text|mathrm|mbox|operatorname|textrm|rm)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:,|;|:|!|quad|qquad|\s)|~"), " "),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|\\degree"), "\N{DEGREE SIGN}"),
    (re.compile(r"\\([%$])"), r"\1"),
    (re.compile(r"\\(?:cdot|times)"), "*"),
    (re.compile(r"\\mu\s*"), "\N{MICRO SIGN}"),
    (re.compile(r"\\Omega"), "\N{GREEK CAPITAL LETTER OMEGA}"),
    (re.compile(r"\N{DEGREE SIGN}\s+([CF])\b"), "\N{DEGREE SIGN}\\1"),
)
_AMOUNT = re.compile(
    r"(?P<currency>[$\N{EURO SIGN}\N{POUND SIGN}])?\s*"
    r"(?P<number>[+-]?\s*(?:\\[dt]?frac\s*\{\d+\}\s*\{\d+\}|(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?:/\d+)?))"
    r"(?:\s*[*x\N{MULTIPLICATION SIGN}]\s*10\s*\^\s*\{?(?P<power>[+-]?\d{1,3})\}?)?"
    r"(?P<unit>.*)",
    re.ASCII | re.DOTALL,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<per>/|\bper\b)|(?P<times>[*\N{MIDDLE DOT}\N{DOT OPERATOR}])|(?P<open>\()|(?P<close>\))"
    r"|(?P<symbol>[%$\N{EURO SIGN}\N{POUND SIGN}\N{CENT SIGN}]|\N{DEGREE SIGN}?[^\W\d_]+|\N{DEGREE SIGN})"
    r"(?:\s*(?:\^|\*\*)\s*\{?\s*(?P<power>[+-]?\d)\s*\}?|(?P<short>-?[1-9]))?)"
)


def read_quantity(text: str) -> Quantity | None:
    """The amount that a text states, or None where it states none, more than one, or one out of bounds."""
    if len(text) > _MAX_CHARACTERS:
        return None
    plain = _plain(text)
    match = _AMOUNT.fullmatch(plain)
    number = read_number(match["number"], NumberForm.FRACTION) if match else None
    if match is None or number is None:
        return None
    unit = read_unit(match["unit"])
    if unit is None or (match["currency"] and unit.dimension):
        return None
    if match["currency"]:
        unit = _PLAIN[match["currency"]]
    scale = Fraction(10) ** int(match["power"] or 0)
    amount = Number(
        value=number.value * scale * unit.factor + unit.offset,
        is_decimal=number.is_decimal or match["power"] is not None,
    )
    return Quantity(number=amount, dimension=unit.dimension)


def read_unit(text: str) -> Unit | None:
    """The unit that a text writes; an empty text is the unit of bare numbers.

    Args:
        text: symbols or names with exponents, joined by blanks, `*`, `/` and "per"; behind "/" one of them, or several
            in parentheses.
    """
    stripped = text.strip().removesuffix(".").strip()
    if not stripped:
        return _BARE
    if stripped in _TEMPERATURES:
        return _TEMPERATURES[stripped]
    factors = _factors(stripped)
    if factors is None:
        return None
    factor, dimension = Fraction(1), Counter[str]()
    for symbol, exponent in factors:
        one = _one(symbol)
        if one is None and len(factors) > 1:
            return None  # Words that are no units make prose, not an amount.
        if one is None:
            one = Unit(factor=Fraction(1), dimension=((symbol.casefold(), 1),))
        factor *= one.factor**exponent
        for base, power in one.dimension:
            dimension[base] += power * exponent
    return Unit(factor=factor, dimension=tuple(sorted((b, p) for b, p in dimension.items() if p)))


def is_known_unit(symbol: str) -> bool:
    """Whether the table holds a symbol or a name, with or without a prefix."""
    return _one(symbol) is not None


def _factors(text: str) -> list[tuple[str, int]] | None:
    """Symbols with exponents; None where the text is not made of them."""
    found: list[tuple[str, int]] = []
    place, sign, is_grouped = 0, 1, False
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or len(found) > _MAX_FACTORS:
            return None
        place = match.end()
        if match["per"]:
            if sign < 0 or not found:
                return None
            sign = -1
        elif match["open"] or match["close"]:
            if bool(match["open"]) == is_grouped:
                return None
            is_grouped = not is_grouped
            sign = sign if is_grouped else 1
        elif match["symbol"]:
            exponent = int(match["power"] or match["short"] or 1)
            found.append((match["symbol"], sign * exponent))
            sign = sign if is_grouped else 1
    return None if is_grouped or sign < 0 else found


def _one(symbol: str) -> Unit | None:
    """The unit of one symbol or name: as it stands first, then with a prefix, then as a word."""
    if symbol in _PLAIN:
        return _PLAIN[symbol]
    if symbol in _PREFIXABLE:
        return _PREFIXABLE[symbol]
    for prefix, power in _PREFIXES.items():
        base = symbol.removeprefix(prefix)
        if base != symbol and base in _PREFIXABLE:
            return _scaled(_PREFIXABLE[base], power)
    word = symbol.casefold()
    if (named := _named(word)) is not None:
        return named
    for prefix, power in _PREFIX_WORDS.items():
        if word.startswith(prefix) and (named := _named(word.removeprefix(prefix))) is not None:
            return _scaled(named, power)
    return None


def _named(word: str) -> Unit | None:
    symbol = _WORDS.get(word) or _WORDS.get(word.removesuffix("s"))
    if symbol is None:
        return None
    if symbol == "cm3":
        return _unit(Fraction(1, 1_000_000), m=3)
    return _PREFIXABLE.get(symbol) or _PLAIN[symbol]


def _scaled(unit: Unit, power: int) -> Unit:
    return replace(unit, factor=unit.factor * Fraction(10) ** power)


def _plain(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped.startswith("$") and stripped.endswith("$"):
        stripped = stripped[1:-1].strip()
    for pattern, spelling in _LATEX:
        stripped = pattern.sub(spelling, stripped)
    return stripped.replace("\N{MINUS SIGN}", "-").translate(_SUPERSCRIPTS).strip()
