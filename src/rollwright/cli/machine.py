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
    sys.stdout.write(json.dumps(_plain(record), ensure_ascii=False, allow_nan=False) + "\n")
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
