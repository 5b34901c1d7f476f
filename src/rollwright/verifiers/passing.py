"""What verifiers have in common that stand before another one: where and when it is asked changes no verdict."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from rollwright.record import Submission, Verdict, Verifier

__all__ = ["PassingVerifier"]


class PassingVerifier(ABC):
    """A verifier before another: name, revision and scope are those of the one behind."""

    def __init__(self, verifier: Verifier) -> None:
        """Stand before `verifier`."""
        self._verifier = verifier

    @property
    def name(self) -> str:
        """Of the verifier behind."""
        return self._verifier.name

    @property
    def revision(self) -> str:
        """Of the verifier behind."""
        return self._verifier.revision

    @property
    def scope(self) -> Literal["trajectory", "group"]:
        """Of the verifier behind."""
        return self._verifier.scope

    @property
    @abstractmethod
    def deadline_s(self) -> float:
        """Of a call, with what comes before it."""

    @abstractmethod
    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Have the verifier behind judge."""
