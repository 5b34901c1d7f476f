"""On which device engine and learner are, and what is said where there is no such device."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rollwright.evidence import ConfigValue, RunFolder, manifest_differences
from rollwright.learner.models import ModelShape, make_model
from rollwright.learner.placement import Gpu, SeenDevices, copied_to, move_model, seen_devices
from rollwright.learner.state import named_weights, tensor_specs
from rollwright.recipes.build.placement import is_bit_for_bit, make_shelf, refuse_devices, same_device
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.record import WeightsManifest
from tests.end_to_end.small import Listener

H200 = Gpu(name="NVIDIA H200", capability=(9, 0))
TURING = Gpu(name="Tesla T4", capability=(7, 5))
NONE = SeenDevices(torch="2.13.0+cpu", built_for=None, driver=None, gpus=(), has_triton=False)
TWO = SeenDevices(torch="2.13.0", built_for="13.0", driver="580.1", gpus=(H200, TURING), has_triton=True)
FAST = "engine.mode=fast"


def recipe(*settings: str):
    return resolve("arithmetic-tool", settings=settings).recipe


def refusal(seen: SeenDevices, *settings: str) -> str:
    with pytest.raises(RecipeError) as caught:
        refuse_devices(recipe(*settings), seen)
    return str(caught.value)


def test_everything_is_on_the_cpu_unless_a_recipe_says_otherwise():
    plain = recipe()
    assert (plain.engine.device, plain.learner.device) == ("cpu", "cpu")
    assert is_bit_for_bit(plain)
    refuse_devices(plain, NONE)


@pytest.mark.parametrize(
    ("seen", "setting", "says"),
    [
        (NONE, "learner.device=cuda", "learner.device is 'cuda', and torch 2.13.0+cpu was built without CUDA"),
        (NONE, "learner.device=cuda", "or set learner.device=cpu (a stored run: in its recipe.toml"),
        (replace(TWO, gpus=(), driver=None), "engine.device=cuda", "torch 2.13.0 (CUDA 13.0) sees no GPU here"),
        (TWO, "engine.device=cuda:2", "torch sees cuda:0 (NVIDIA H200), cuda:1 (Tesla T4); name one of these"),
        (replace(TWO, has_triton=False), "learner.device=cuda", "the package triton"),
    ],
)
def test_a_device_that_is_not_here_is_refused_with_what_torch_sees(seen, setting, says):
    assert says in refusal(seen, setting, FAST)


def test_bfloat16_is_refused_where_a_gpu_has_none():
    said = refusal(TWO, FAST, "learner.device=cuda:1", "learner.dtype=bfloat16")
    assert "cuda:1 (Tesla T4) has no bfloat16: compute capability 7.5, 8.0 is needed; use float32" in said
    refuse_devices(recipe(FAST, "learner.device=cuda:0", "learner.dtype=bfloat16"), TWO)
    refuse_devices(recipe(FAST, "engine.device=cuda:1", "engine.dtype=float32"), TWO)


def test_an_engine_without_triton_may_be_on_a_gpu():
    refuse_devices(recipe(FAST, "engine.device=cuda"), replace(TWO, has_triton=False))


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is said where there is no GPU")
def test_a_run_on_a_gpu_that_is_not_here_leaves_no_folder(tmp_path: Path):
    resolved = resolve("arithmetic-tool", settings=[FAST, "engine.device=cuda", "learner.device=cuda"])
    order = TrainOrder(resolved=resolved, run_dir=tmp_path / "run", source=None, is_rollouts_only=False)
    with pytest.raises(RecipeError, match=r"engine\.device is 'cuda', and torch .* set engine\.device=cpu"):
        train_run(order, Listener())
    assert not (tmp_path / "run").exists()


def test_this_machine_is_seen_as_torch_sees_it():
    seen = seen_devices()
    assert seen.torch == torch.__version__
    assert len(seen.gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_a_run_whose_learner_is_on_a_gpu_promises_no_bits():
    assert not is_bit_for_bit(recipe("learner.device=cuda"))
    assert not is_bit_for_bit(recipe(FAST))


def test_one_gpu_has_two_names():
    assert same_device("cuda", "cuda:0")
    assert not same_device("cuda", "cuda:1")
    assert not same_device("cpu", "cuda:0")


def tiny():
    return make_model(
        ModelShape(vocab_size=64, hidden_size=32, num_layers=2, num_heads=2, num_kv_heads=1, intermediate_size=48),
        seed=3,
    )


def test_weights_on_the_shelf_are_apart_from_the_learner_where_the_devices_differ():
    model = tiny()
    weights = named_weights(model)
    before = tensor_specs(weights)
    shelf = make_shelf(recipe("learner.device=cuda"))
    shelf.put("memory:policy/1", weights)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    manifest = WeightsManifest(
        policy="policy",
        version=1,
        update=1,
        kind="full",
        base_version=None,
        location="memory:policy/1",
        tensors=before,
    )
    lying = shelf.read(manifest)
    assert tensor_specs({name: one for name, one in lying.items() if isinstance(one, torch.Tensor)}) == before


def test_weights_that_are_moved_stay_tied():
    model = tiny()
    moved = copied_to("meta")(named_weights(model))
    assert {one.device.type for one in moved.values()} == {"meta"}
    assert moved["lm_head.weight"] is moved["model.embed_tokens.weight"]


def test_a_model_that_is_moved_keeps_its_parameters():
    model = tiny()
    parameters = dict(model.named_parameters())
    move_model(model, "cpu")
    assert all(parameters[name] is one for name, one in model.named_parameters())
    head = model.get_output_embeddings()
    assert head is not None and head.weight is model.get_input_embeddings().weight


def test_a_run_that_goes_on_elsewhere_is_a_segment_whose_manifest_says_where():
    stored = RunFolder.open(Path("tests/data/runs/before")).manifest
    here, there = (
        replace(
            stored,
            configuration=(
                *stored.configuration,
                ConfigValue(key="learner.device", value=f'"{device}"', origin="recipe", label="I"),
            ),
            machine=replace(stored.machine, accelerators=gpus),
        )
        for device, gpus in (("cuda", ("NVIDIA H200",)), ("cpu", ()))
    )
    found = {one.path: one for one in manifest_differences(here, there)}
    device = found["configuration.learner.device"]
    assert (device.stored, device.now, device.effect) == ('"cuda"', '"cpu"', "segment")
    assert found["machine.accelerators.0"].effect == "promise"
