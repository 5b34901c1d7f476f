"""An environment that meets accidents while a file is there; a recipe names it `tests.end_to_end.unlucky:unlucky`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from rollwright.environments import ToolEnvironment
from rollwright.environments.calculator import calculator_tool
from rollwright.environments.passing import PassingEnvironment
from rollwright.record import Episode, Task


class Unlucky(PassingEnvironment):
    """Every third episode breaks before it begins, as long as there is bad luck."""

    def __init__(self, bad_luck: Path) -> None:
        super().__init__(ToolEnvironment(name="unlucky", tools=(calculator_tool(),)))
        self._bad_luck = bad_luck
        self._opened = 0

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        self._opened += 1
        if self._opened % 3 == 0 and self._bad_luck.exists():
            raise RuntimeError("the machine was lost")
        async with self._behind(task, seed, snapshot) as episode:
            yield episode


def unlucky(bad_luck: str) -> Unlucky:
    """An environment."""
    return Unlucky(Path(bad_luck))
