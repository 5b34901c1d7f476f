"""What every test shares: marks that must name something real, one thread for torch, repeatable examples."""

import gc
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cases import case_ids, row_ids

settings.register_profile("house", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("house")

IS_CUT = pytest.StashKey[bool]()
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 << 30
"""Of memory for files, so that folders of tests are laid there."""


SHORT = ("algorithms", "batches", "record", "rendering", "rollout", "statistics", "tasks", "tools")
"""Rooms whose files take seconds each: they come last, so that no worker is left alone with a long file."""


def pytest_configure() -> None:
    """Lay the folders of tests in memory, where there is room and programs may be run.

    Every commit of a run waits until the disk has it, a tenth of a second and more a step, and no test shows it.
    """
    if os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
        if not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection() -> None:
    """Nothing that is imported is given up again: a quarter of the time would go into looking for what was."""
    gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--record FILE`: where proofs write. `--slice K/N`: every N-th of the chosen tests from the K-th on, K from 0."""
    parser.addoption("--record", metavar="FILE", help="keep the figures of a proof, one JSON object a line")
    parser.addoption("--slice", metavar="K/N", help="run every N-th of the chosen tests, from the K-th on")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a mark whose id does not exist, let short rooms come last, then keep the slice that was asked for."""
    _refuse_unknown_ids(items)
    short = tuple(f"tests/{room}/" for room in SHORT)
    items.sort(key=lambda item: item.nodeid.startswith(short))
    chosen = config.getoption("--slice")
    if chosen is not None:
        part, of = (int(number) for number in chosen.split("/"))
        config.stash[IS_CUT] = bool(items)
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % of != part])
        items[:] = items[part::of]


def pytest_collection_finish() -> None:
    """What was imported stays for good: a full collection need not look through all of it each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A slice with nothing in it passes, if there was something to cut."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(IS_CUT, False):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Workers share two cores: more than one thread each makes every test slower."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _refuse_unknown_ids(items: list[pytest.Item]) -> None:
    known = {"row": row_ids(), "case": case_ids()}
    for item in items:
        for name, ids in known.items():
            for mark in item.iter_markers(name):
                unknown = [i for i in mark.args if i not in ids]
                if unknown or not mark.args:
                    raise pytest.UsageError(
                        f"{item.nodeid}: mark {name} carries {unknown or 'no id'}, no id of the data"
                    )
