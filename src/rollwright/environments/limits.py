"""Limits that an environment has beside those of the rollout, said by name."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from rollwright.record import Environment

__all__ = ["LimitedEnvironment"]


@runtime_checkable
class LimitedEnvironment(Environment, Protocol):
    """An environment that says where it stops a policy by itself."""

    @property
    def limits(self) -> Mapping[str, float]:
        """Name to number: `calls` (requests of an episode; the next has status `limit`), `turns` and the like."""
        ...
