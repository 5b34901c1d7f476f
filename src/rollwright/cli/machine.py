"""What a machine reads: one JSON object a line."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

__all__ = ["print_json"]


def print_json(record: Mapping[str, object]) -> None:
    """One object, one line; what JSON has no word for (NaN, bytes, dates) is text."""
    plain = _plain(record)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # JSON can spell every character in ASCII
        text = json.dumps(plain, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return float(value) if math.isfinite(value) else str(value)
        case list() | tuple():
            return [_plain(inner) for inner in cast("Sequence[object]", value)]
        case dict():
            return {str(key): _plain(inner) for key, inner in cast("Mapping[object, object]", value).items()}
        case _:
            return value.hex() if isinstance(value, bytes) else str(value)
