"""Forms of answers that math-verify takes for more or for less than they are, read and compared before it is asked."""

import re
import unicodedata
from fractions import Fraction

from rollwright.verifiers.numbers import Number, NumberForm, agree, read_gold_number, read_number
from rollwright.verifiers.quantities import read_quantity

__all__ = [
    "MATH_FORMS_REVISION",
    "given_number",
    "given_scientific",
    "gold_number",
    "is_numeral",
    "judged_by_form",
    "plain_math",
]

MATH_FORMS_REVISION = 1
"""Of the rules in this file."""
_TEXT = r"\\(?:text|mathrm|mbox|textbf|textit|operatorname)"
_WRAPPED = re.compile(rf"\(?\s*{_TEXT}\s*\{{([^{{}}]*)\}}\s*\)?")
_GROUP = re.compile(rf"{_TEXT}\s*\{{[^{{}}]*\}}")
_WORD = re.compile(r"[\W\d_]*[^\W\d_]+(?:[ '-]+[^\W\d_]+)*[\W_]*")
_SCIENTIFIC = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<mantissa>[1-9](?:\.\d+)?)\s*(?:\\times|\\cdot|[*x]|\N{MULTIPLICATION SIGN})\s*"
    r"10\s*(?:\^|\*\*)\s*(?:\{\s*(?P<braced>[-+]?\d{1,3})\s*\}|(?P<power>[-+]?\d{1,3}))"
)
_REPEATING = re.compile(r"(?P<sign>[-+]?)(?P<whole>\d{0,30})\.(?P<once>\d{0,30})\\overline\s*\{(?P<again>\d{1,30})\}")
_NUMERAL = re.compile(
    r"(?:[\d\s.,/^{}()!+-]|\\[dt]?frac|\\sqrt|\\left|\\right|\\displaystyle|\\math(?:bf|rm)|\\[,;:! ])*", re.ASCII
)
_MIXED = re.compile(r"([-+]?\d+)\s+(\d+)\s*/\s*(\d+)")
_LONE_DOLLAR = re.compile(r"^\$(?=\s*[\d.])(?!.*\$)")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_SIZES = re.compile(r"\\(?:left|right|big|Big)(?![A-Za-z])")
_BRACKETS = {"(": "round", "[": "round", "\\{": "set"}
_SHORT_WORDS = frozenset({"yes", "no", "odd", "even", "true", "false", "none"})
_LEAST_LETTERS = 4
"""Of a word that stands alone; fewer are a product of variables."""


def plain_math(text: str) -> str:
    """The formula without dollars around it and a full stop at its end, in the spellings that are read."""
    stripped = text.strip()
    if stripped.endswith(".$") or stripped.endswith("$."):
        stripped = f"{stripped[:-2]}$"
    if len(stripped) > 1 and stripped.startswith("$") and stripped.endswith("$"):
        stripped = stripped.strip("$").strip()
    stripped = _LONE_DOLLAR.sub(r"\\$", stripped.removesuffix("."))
    stripped = stripped.replace("\N{MINUS SIGN}", "-").replace("\N{DEGREE SIGN}", "^\\circ")
    stripped = stripped.replace("\\varnothing", "\\emptyset")
    if mixed := _MIXED.fullmatch(stripped):
        return f"{mixed[1]}\\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    return "".join(map(_spelled, stripped))


def given_number(text: str) -> Number | None:
    """The number that an answer is, scientific notation included; a computation is none."""
    return read_number(text, NumberForm.CLOSED) or given_scientific(text) or _repeating(text)


def given_scientific(text: str) -> Number | None:
    """Scientific notation of one digit before the point, such as 6.02 times 10^23."""
    match = _SCIENTIFIC.fullmatch(text.strip())
    if match is None:
        return None
    size = Fraction(match["mantissa"]) * Fraction(10) ** int(match["braced"] or match["power"])
    return Number(value=-size if match["sign"] == "-" else size, is_decimal=True)


def gold_number(text: str) -> Number | None:
    """The number that a gold answer is."""
    return read_gold_number(text) or given_scientific(text) or _repeating(text)


def is_numeral(text: str) -> bool:
    """Whether a formula is made of what writes a single number: no variable, no set, no list, no other function."""
    return _NUMERAL.fullmatch(text) is not None


def judged_by_form(answer: str, gold: str, tolerance: float) -> bool | None:
    """Whether the two are the same, where their form decides; None where it does not.

    Words compare as words, amounts of one dimension as amounts, a set is no tuple or interval, and x is not X.

    Args:
        answer: as `plain_math` leaves it.
        gold: likewise.
        tolerance: relative, of amounts of which one is a decimal.
    """
    wanted, given = _word(gold), _word(answer)
    if wanted is not None and (_is_wrapped(gold) or _is_prose(wanted) or (given and _is_wrapped(answer))):
        return wanted == given
    if (right := read_quantity(gold)) is not None and right.dimension:
        amount = read_quantity(answer)
        if amount is None or amount.dimension != right.dimension:
            return False if amount is not None else None
        return agree(right.number, amount.number, tolerance)
    kinds = {_collection(answer), _collection(gold)}
    if kinds == {"round", "set"} or _other_case(answer, gold):
        return False
    if kinds == {"round", "list"}:
        return _bare_items(answer) == _bare_items(gold)
    return None


def _repeating(text: str) -> Number | None:
    match = _REPEATING.fullmatch(text.strip())
    if match is None:
        return None
    once, again = match["once"], match["again"]
    period = Fraction(int(again), 10 ** len(once) * (10 ** len(again) - 1))
    size = int(match["whole"] or 0) + Fraction(int(once or 0), 10 ** len(once)) + period
    return Number(value=-size if match["sign"] == "-" else size, is_decimal=False)


def _spelled(character: str) -> str:
    """One half as a single sign is a fraction like any other."""
    if not unicodedata.decomposition(character).startswith("<fraction>"):
        return character
    above, _, below = unicodedata.normalize("NFKC", character).partition("\N{FRACTION SLASH}")
    return f"\\frac{{{above}}}{{{below}}}" if above and below else character


def _is_wrapped(text: str) -> bool:
    return _WRAPPED.fullmatch(text) is not None and _word(text) is not None


def _word(text: str) -> str | None:
    """Letters and words alone, without the brackets of an option; None for anything with a number or a formula."""
    match = _WRAPPED.fullmatch(text)
    inner = match[1] if match else text
    if any(sign in inner for sign in "\\^_{}=+*/<>|,;") or not _WORD.fullmatch(inner.strip()):
        return None
    if any(character.isdigit() for character in inner):
        return None
    return " ".join(inner.strip(" \t().").split()).casefold()


def _is_prose(word: str) -> bool:
    return word in _SHORT_WORDS or len(word) >= _LEAST_LETTERS


def _collection(text: str) -> str | None:
    """`set`, `round` (tuple, interval) or `list` (no brackets) of what has a comma; None of anything else."""
    bare = _SIZES.sub("", text).replace("\\lbrace", "\\{").replace("\\rbrace", "\\}").strip()
    if "," not in bare or read_number(bare, NumberForm.CLOSED):
        return None
    opening = next((mark for mark in ("\\{", "(", "[") if bare.startswith(mark)), None)
    depth = 0
    for place, character in enumerate(bare):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == ",":
            return "list"
        if depth == 0 and character in ")]}" and place < len(bare) - 1 and opening:
            opening = None  # Several collections, such as a union, or a list of them.
    return None if opening is None else _BRACKETS[opening]


def _bare_items(text: str) -> str:
    return "".join(_SIZES.sub("", text).split()).removeprefix("(").removesuffix(")")


def _other_case(answer: str, gold: str) -> bool:
    """Whether a letter stands in the one as a capital and in the other only as a small one."""
    given, wanted = _letters(answer), _letters(gold)
    return any(x not in wanted and x.swapcase() in wanted and x.swapcase() not in given for x in given)


def _letters(text: str) -> set[str]:
    rest = _COMMAND.sub(" ", _GROUP.sub(" ", text))
    return {character for character in rest if character.isascii() and character.isalpha()}
