"""What a check says: its name, whether it holds, and a sentence with what was expected, what was seen and where."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["CheckFailedError", "CheckHungError", "CheckOrder", "CheckOutcome", "EnvironmentFaultError", "shown"]

LONGEST_SHOWN = 160
Status = Literal["passed", "failed", "skipped"]


class CheckFailedError(Exception):
    """A promise that does not hold; the text is the whole sentence."""


class EnvironmentFaultError(CheckFailedError):
    """The environment raised while it was played rightly."""


class CheckHungError(CheckFailedError):
    """Something did not come back; what follows would wait for it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """One check of one world."""

    name: str
    status: Status
    sentence: str

    def as_line(self) -> Mapping[str, object]:
        """For machines."""
        return {"check": self.name, "status": self.status, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOrder:
    """What is to be checked, and how long anything may take."""

    name: str
    """Of a world that ships, or `package.module:name`."""
    arguments: Mapping[str, object]
    num_tasks: int = 4
    """Training and held-out tasks together, in turns."""
    limit_s: float = 10.0
    """Of one answer of the environment."""
    saved: str = ""
    """A snapshot before the second turn of the reference, in hexadecimal, to go on from in another process."""
    most_bad_calls: int = 60
    """Each in an episode of its own."""


def shown(value: object) -> str:
    """A value as a sentence shows it: on one line, cut in the middle."""
    text = " ".join(str(value).split()) if isinstance(value, str) else repr(value)
    if len(text) <= LONGEST_SHOWN:
        return repr(text) if isinstance(value, str) else text
    half = LONGEST_SHOWN // 2
    return repr(f"{text[:half]} … {text[-half:]}")
