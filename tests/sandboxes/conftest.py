"""Pools that the tests share: opening one proves its wall, which takes a while."""

from collections.abc import Iterator

import pytest

from rollwright.sandboxes import Sandboxes, SandboxLimits, SandboxProfile, open_sandboxes

LIMITS = SandboxLimits(
    wall_s=30.0,
    cpu_s=5.0,
    memory_bytes=300 * 2**20,
    total_memory_bytes=400 * 2**20,
    processes=12,
    disk_bytes=8 * 2**20,
)


@pytest.fixture(scope="session")
def walled() -> Iterator[Sandboxes]:
    """Sandboxes behind the full wall, with tight limits; none is kept ready, so that nothing starts beside a test."""
    pool = open_sandboxes(SandboxProfile(limits=LIMITS), num_warm=0)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def plain() -> Iterator[Sandboxes]:
    """The weaker isolation."""
    pool = open_sandboxes(SandboxProfile(isolation="process", limits=LIMITS), num_warm=0)
    yield pool
    pool.close()
