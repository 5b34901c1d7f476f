"""A run on a GPU, and the same run gone on with on a CPU."""

from pathlib import Path

import pytest

from rollwright.evidence import RunFolder, query
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resuming import resume_run
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.small import Listener, small

PLACED = ("engine.mode=fast", "engine.device=cuda", "learner.device=cuda")


def trained(path: Path, *settings: str) -> RunFolder:
    order = TrainOrder(resolved=small(*settings), run_dir=path, source=None, is_rollouts_only=False)
    train_run(order, Listener())
    return RunFolder.open(path)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_run_on_a_gpu_trains_and_its_manifest_says_where(tmp_path, dtype):
    folder = trained(tmp_path / "run", *PLACED, f"engine.dtype={dtype}", f"learner.dtype={dtype}")
    values = {one.key: one.value for one in folder.manifest.configuration}
    assert (values["engine.device"], values["learner.device"]) == ('"cuda"', '"cuda"')
    assert folder.manifest.machine.accelerators
    assert not folder.manifest.is_deterministic
    (moved,) = query(folder.path, "SELECT count(*) FROM receipts WHERE influence > 0").rows
    assert int(str(moved[0])) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["engine", "learner"])
def test_engine_and_learner_may_be_apart(tmp_path, place):
    assert trained(tmp_path / "run", "engine.mode=fast", f"{place}.device=cuda").newest_checkpoint().chosen is not None


@pytest.mark.gpu
def test_a_run_of_a_gpu_goes_on_on_a_cpu_as_a_segment_of_its_own(tmp_path):
    folder = trained(tmp_path / "run", *PLACED)
    written = folder.path / "recipe.toml"
    written.write_text(
        written.read_text(encoding="utf-8").replace('"cuda"', '"cpu"').replace("steps = 2", "steps = 3"),
        encoding="utf-8",
    )
    with pytest.raises(RecipeError, match=r"learner\.device"):
        resume_run(folder.path, Listener())
    resume_run(folder.path, Listener(), new_segment="the GPU is gone")
    assert len(RunFolder.open(folder.path).manifests) == 2
