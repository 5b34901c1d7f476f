"""Learner and engine on a device that is not the CPU, where there is none: `python -m tests.learner.elsewhere`.

The device `far` is made of torch's hooks for Python back-ends: its tensors are of another device, their numbers lie on
the CPU, and an operation that mixes both fails. So what forgets to move a tensor is found, and the numbers are those of
the CPU. A process of its own, since a back-end cannot be taken back. What the hooks cannot do is done otherwise here:
FlexAttention knows no such device, and inference mode no such tensors.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

torch.inference_mode = torch.no_grad  # before the engine's modules are read

NAME = "far"
MAY_MIX = ("aten.copy_.default", "aten._to_copy.default", "aten.index.Tensor", "aten.index_put_.default")
"""Copies, and numbers on the CPU that say where: CUDA takes those too."""


class Far(torch.Tensor):
    """A tensor of the pretended device."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, inner, requires_grad=False):  # noqa: FBT002 - as torch makes parameters
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            requires_grad=requires_grad,
        )
        made.numbers = inner
        return made

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = Far.__new__(Far, self.numbers.clone(), requires_grad=self.requires_grad)
            memo[id(self)]._is_param = True
        return memo[id(self)]

    def data_ptr(self):
        return self.numbers.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatched(func, args, kwargs or {})


def near(value: Any) -> Any:
    return value.numbers if isinstance(value, Far) else value


def dispatched(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The operation on the numbers, its result where torch would have it."""
    given = [one for one in tree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    far = [one for one in given if isinstance(one, Far)]
    mixed = [tuple(one.shape) for one in given if not isinstance(one, Far) and one.dim()]
    if far and mixed and str(func) not in MAY_MIX:
        raise RuntimeError(f"{func} mixes tensors of {NAME} with those of shapes {mixed} on the CPU")
    plain, named = tree.tree_map(near, (tuple(args), dict(kwargs)))
    is_far, device = bool(far), kwargs.get("device")
    if device is not None:
        is_far, named["device"] = torch.device(device).type == NAME, torch.device("cpu")
    # Torch resolves conjugates above this place, so none may be left for later.
    found = torch.conj_physical(plain[0]) if str(func) == "aten._conj.default" else func(*plain, **named)
    same = {id(one.numbers): one for one in far}
    return tree.tree_map(
        lambda one: (
            same.get(id(one)) or Far(one)
            if is_far and isinstance(one, torch.Tensor) and not isinstance(one, Far) and id(one) not in same
            else same.get(id(one), one)
        ),
        found,
    )


class OnFar(TorchDispatchMode):
    """What is made there from nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        named = kwargs or {}
        device = named.get("device")
        is_far = device is not None and torch.device(device).type == NAME
        if is_far or any(isinstance(one, Far) for one in tree.tree_leaves((args, named))):
            return dispatched(func, args, named)
        return func(*args, **named)


def begin() -> torch.library.Library:
    """Make the device known; keep what is given back."""
    _setup_privateuseone_for_python_backend(NAME)
    torch.get_device_module(NAME).get_amp_supported_dtype = lambda: [torch.bfloat16]
    library = torch.library.Library("aten", "IMPL")

    def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
        return Far(torch.empty_strided(size, stride, dtype=dtype))

    def copy_from(source, target, non_blocking=False):  # noqa: FBT002 - torch's own
        near(target).copy_(near(source))
        return target

    library.impl("empty_strided", empty_strided, "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    return library


def dense_attention(query, key, value, rows, scaling):
    """In the place of FlexAttention."""
    key, value = (one.repeat_interleave(query.shape[1] // key.shape[1], 1) for one in (key, value))
    places = torch.arange(len(rows.ends), device=query.device)
    sees = (places <= places[:, None]) & (places[:, None] < rows.ends)
    scores = torch.einsum("ihd,jhd->hij", query, key) * scaling
    return torch.einsum("hij,jhd->ihd", scores.masked_fill(~sees, -torch.inf).softmax(-1), value)


def moved_model(seed: int = 1):
    from rollwright.learner.placement import move_model
    from tests.learner.small import lively_model

    model = lively_model(seed)
    move_model(model, NAME)
    model.tie_weights()  # a tensor of another class replaces the parameters, which CUDA's does not
    return model


def learner_gap() -> float:
    """Of scores in two updates there and here, the second behind a checkpoint that was written here."""
    from rollwright.algorithms import grpo
    from tests.learner.small import batch_of, learner_of, two_turn_groups

    objective = grpo()
    batch = batch_of(two_turn_groups(), objective)
    here, there = learner_of(), learner_of(moved_model())
    gaps: list[float] = []

    def step(number: int) -> None:
        found: list[np.ndarray] = []
        for one in (here, there):
            proximal = one.train(batch, objective, first_update=number).updates[0].outcome.proximal
            assert proximal is not None
            found.append(proximal)
        gaps.append(float(np.nanmax(np.abs(found[0] - found[1]))))
        gaps.append(float(np.nanmax(np.abs(here.score(batch).logprobs - there.score(batch).logprobs))))

    step(1)
    here.freeze_reference()
    with TemporaryDirectory() as folder:
        here.save(Path(folder) / "saved")
        there = learner_of(moved_model(2))
        there.restore(Path(folder) / "saved")
    gaps.append(float(np.nanmax(np.abs(here.score_reference(batch).logprobs - there.score_reference(batch).logprobs))))
    step(2)
    assert {one.device.type for one in there.optimizer.state_tensors().values()} == {NAME}
    return max(gaps)


def engine_gap() -> float:
    """Of logits there and here: prompts, a shared prefix, decode steps, scores, and weights that came later."""
    from rollwright.engines.embedded.opening import EmbeddedSettings, make_runner
    from rollwright.engines.embedded.runner import PrefillRow
    from rollwright.learner.placement import copied_to
    from rollwright.learner.state import named_weights
    from tests.learner.small import VOCAB, lively_model

    draw = np.random.default_rng(0)
    prompts = [draw.integers(0, VOCAB, length).astype(np.int32) for length in (70, 40, 9)]

    def run(device: str) -> list[Any]:
        settings = EmbeddedSettings(mode="fast", device=device, num_slots=8, max_context_tokens=256)
        runner = make_runner(lively_model(), settings)
        found = [runner.prefill([PrefillRow(place=n, start=0, token_ids=ids) for n, ids in enumerate(prompts)])]
        runner.copy_prefix(0, 4, 66)
        found.append(runner.prefill([PrefillRow(place=4, start=66, token_ids=prompts[1][:5])]))
        for step in range(3):
            positions = np.array([len(ids) + step for ids in prompts])
            found.append(runner.decode(np.arange(3), np.array([1, 2, 3]), positions))
        found += runner.score(prompts[0], 5)
        for seed in (7, 8):
            runner.stage(copied_to(device)(named_weights(lively_model(seed))))()
            runner.scrub(5)
            found.append(runner.prefill([PrefillRow(place=5, start=0, token_ids=prompts[1])]))
        return found

    return max(float(np.abs(one - other).max()) for one, other in zip(run("cpu"), run(NAME), strict=True))


def refusal() -> str:
    """What is said of a sum over both devices."""
    try:
        torch.add(torch.ones(3, device=NAME), torch.ones(3))
    except RuntimeError as error:
        return str(error)
    return "nothing"


PARTS: dict[str, Callable[[], object]] = {"refusal": refusal, "learner": learner_gap, "engine": engine_gap}


def main() -> None:
    import rollwright.learner.dense as dense

    library = begin()
    tiles = dense.tree_attention
    dense.tree_attention = lambda query, *others: (tiles if query.device.type == "cpu" else dense_attention)(
        query, *others
    )
    with OnFar():
        found = {name: part() for name, part in PARTS.items()}
    sys.stdout.write(json.dumps(found) + "\n")
    del library


if __name__ == "__main__":
    main()
