"""Limits that an environment has beside those of the rollout, said by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from rollwright.record import Environment

__all__ = ["LimitedEnvironment", "limits_of"]


@runtime_checkable
class LimitedEnvironment(Environment, Protocol):
    """An environment that says where it stops a policy by itself."""

    @property
    def limits(self) -> Mapping[str, float]:
        """Name to number: `calls` (requests of an episode; the next has status `limit`), `turns` and the like."""
        ...


def limits_of(environment: Environment) -> Mapping[str, float]:
    """What an environment declares; nothing where it declares none."""
    return environment.limits if isinstance(environment, LimitedEnvironment) else MappingProxyType({})
