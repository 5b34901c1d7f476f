"""A scorer of the worst kind, for tests of the processes that hold such code."""

import os
import time
from collections.abc import Callable

__all__ = ["open_nothing", "open_scorer"]


def open_scorer(settings: dict[str, int]) -> Callable[[object], object]:
    """Answers numbers; does what it is told otherwise."""
    base = settings["base"]

    def answer(request: object) -> object:
        match request:
            case int():
                return base + request
            case "hang":
                while True:
                    pass
            case "sleep":
                time.sleep(60)
            case "grow":
                return len(bytearray(2**40))
            case "die":
                os._exit(3)
            case "print":
                os.write(1, b'{"status": "given", "value": 1e9}\n')
                return 0
            case "nan":
                return float("nan")
            case _:
                raise ValueError(f"no answer to {request!r}")

    return answer


def open_nothing(settings: object) -> Callable[[object], object]:
    """Cannot be opened."""
    raise RuntimeError("the package is not well")
