"""Where engine and learner compute: whether torch can use a device here, and moving a model or its weights there."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rollwright.learner.machine import cuda_driver

__all__ = ["Gpu", "SeenDevices", "copied_to", "move_model", "seen_devices", "why_not_device"]

_BFLOAT16_CAPABILITY = (8, 0)
"""Below it products of bfloat16 are made of products of float32, slower than these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU that torch sees."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDevices:
    """What torch sees of this machine, besides its CPU."""

    torch: str
    """Torch's version."""
    built_for: str | None
    """The version of CUDA that this torch was built for; None: it was built without."""
    driver: str | None
    """Of the GPUs; None where torch can use none."""
    gpus: tuple[Gpu, ...]
    """In torch's order: `cuda:0` first."""
    has_triton: bool
    """What the learner's attention on a GPU is compiled by."""


def seen_devices() -> SeenDevices:
    """Look at this machine; nothing is reserved on a GPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return SeenDevices(
        torch=torch.__version__,
        built_for=torch.version.cuda,
        driver=cuda_driver(),
        gpus=tuple(
            Gpu(name=torch.cuda.get_device_name(number), capability=torch.cuda.get_device_capability(number))
            for number in range(count)
        ),
        has_triton=importlib.util.find_spec("triton") is not None,
    )


def why_not_device(device: str, dtype: str, seen: SeenDevices) -> str | None:
    """Why nothing can be computed on a device in a type; None where it can.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        dtype: `float32` or `bfloat16`, of the products.
        seen: of the machine.

    Returns:
        A clause for a sentence about the device.
    """
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return None
    if seen.built_for is None:
        return f"torch {seen.torch} was built without CUDA and sees the CPU alone; install a build of torch with CUDA"
    if not seen.gpus:
        return (
            f"torch {seen.torch} (CUDA {seen.built_for}) sees no GPU here; check that `nvidia-smi` lists one and that "
            "CUDA_VISIBLE_DEVICES hides none"
        )
    place = int(number or 0)
    if place >= len(seen.gpus):
        there = ", ".join(f"cuda:{i} ({gpu.name})" for i, gpu in enumerate(seen.gpus))
        return f"torch sees {there}; name one of these"
    gpu = seen.gpus[place]
    if dtype == "bfloat16" and gpu.capability < _BFLOAT16_CAPABILITY:
        have, need = (".".join(map(str, one)) for one in (gpu.capability, _BFLOAT16_CAPABILITY))
        return f"cuda:{place} ({gpu.name}) has no bfloat16: compute capability {have}, {need} is needed; use float32"
    return None


def move_model(model: PreTrainedModel, device: str) -> None:
    """Move a model's weights and buffers, in place; its parameters stay the same objects, tied ones tied.

    Args:
        model: on any device.
        device: as torch names it.
    """
    nn.Module.to(model, torch.device(device))


def copied_to(device: str) -> Callable[[Mapping[str, object]], dict[str, Tensor]]:
    """What copies weights to a device, apart from the model, each memory once: tied weights stay one tensor.

    Args:
        device: as torch names it.
    """
    place = torch.device(device)

    def copy(weights: Mapping[str, object]) -> dict[str, Tensor]:
        moved: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Tensor] = {}
        copied: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            assert isinstance(tensor, Tensor), f"{name} is no tensor"
            key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
            if key not in moved:
                moved[key] = tensor.detach().to(place, copy=True)
            copied[name] = moved[key]
        return copied

    return copy
