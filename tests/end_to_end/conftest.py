"""One small run with everything kept, shared by the tests that only look at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollwright.engines.recorder import RecordedChunk, RecordingEngine
from rollwright.recipes.runs import TrainOrder, TrainResult, train_run
from rollwright.record import Engine
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import TAUGHT, THREE_STEPS, Listener, small


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A finished run, and what stood between its engine and its driver."""

    path: Path
    result: TrainResult
    chunks: Sequence[RecordedChunk]
    heard: Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A finished run."""

    path: Path
    result: TrainResult


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A small run with a recorder, and a checkpoint of every step."""
    path = tmp_path_factory.mktemp("end_to_end") / "recorded"
    recorders: list[RecordingEngine] = []
    heard = Listener()

    def watch(engine: Engine) -> Engine:
        recorders.append(RecordingEngine(engine))
        return recorders[-1]

    order = TrainOrder(
        resolved=small(*TAUGHT, "runtime.keep_every=1"),
        run_dir=path,
        source=None,
        is_rollouts_only=False,
        watch=watch,
    )
    result = train_run(order, heard)
    return Recorded(path=path, result=result, chunks=recorders[0].chunks, heard=heard)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A smaller one: three steps of the warm start, three of RL."""
    path = tmp_path_factory.mktemp("end_to_end") / "finished"
    resolved = small(*THREE_STEPS)
    result = train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    return Finished(path=path, result=result)


@pytest.fixture
def proofs(request: pytest.FixtureRequest, tmp_path: Path) -> Proofs:
    """Where the figures of a proof go, if anywhere."""
    file = request.config.getoption("--record")
    return Proofs(None if file is None else Path(file), tmp_path)
