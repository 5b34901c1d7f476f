"""New weights are finite, and complete by name, shape, type and digest, or refused as a whole."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rollwright.engines.errors import WeightsRefusedError
from rollwright.record import TensorSpec, WeightsManifest

__all__ = ["WeightNames", "check_manifest", "check_tensors", "digest_of", "type_name", "weight_names"]

_NAMED_IN_AN_ERROR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightNames:
    """What a model needs."""

    shapes: Mapping[str, tuple[int, ...]]
    """Needed tensors."""
    aliases: Mapping[str, str]
    """Second names of tied tensors, to the needed one; they may be given, and then have to be equal."""


def weight_names(model: PreTrainedModel) -> WeightNames:
    """The names of a model; of tensors that share memory the first is needed and the others are aliases."""
    shapes: dict[str, tuple[int, ...]] = {}
    aliases: dict[str, str] = {}
    owners: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        owner = owners.setdefault(key, name)
        if owner == name:
            shapes[name] = tuple(tensor.shape)
        else:
            aliases[name] = owner
    return WeightNames(shapes=shapes, aliases=aliases)


def check_manifest(manifest: WeightsManifest, names: WeightNames, policy: str) -> None:
    """Refuse a manifest that is not a whole set of this model's weights.

    Raises:
        WeightsRefusedError: naming what is missing, unknown or of another shape.
    """
    found: list[str] = []
    if manifest.policy != policy:
        found.append(f"it is of policy {manifest.policy!r}, this engine serves {policy!r}")
    if manifest.kind != "full":
        found.append(f"it is of kind {manifest.kind!r}, this engine takes 'full'")
    specs = {spec.name: spec for spec in manifest.tensors}
    if len(specs) != len(manifest.tensors):
        found.append("it names a tensor twice")
    found += _listed("missing", sorted(names.shapes.keys() - specs.keys()))
    found += _listed("unmatched by the model", sorted(specs.keys() - names.shapes.keys() - names.aliases.keys()))
    for name, spec in specs.items():
        due = names.shapes.get(names.aliases.get(name, name))
        if due is not None and tuple(spec.shape) != due:
            found.append(f"{name} has the shape {tuple(spec.shape)}, the model needs {due}")
    for alias, owner in names.aliases.items():
        if alias in specs and owner in specs and specs[alias].sha256 != specs[owner].sha256:
            found.append(f"{alias} and {owner} are tied in the model, and differ here")
    _refuse(manifest, found)


def check_tensors(manifest: WeightsManifest, given: Mapping[str, object], names: WeightNames) -> dict[str, Tensor]:
    """Compare what the reader gave with what the manifest promised. It is read only, and nothing is copied.

    Args:
        manifest: already checked against the model.
        given: tensors by name; those of `manifest`.
        names: of the model.

    Returns:
        The needed tensors, without aliases.

    Raises:
        WeightsRefusedError: naming what differs.
    """
    found: list[str] = []
    tensors: dict[str, Tensor] = {}
    digests = _Digests()
    for spec in manifest.tensors:
        tensor = given.get(spec.name)
        if not isinstance(tensor, Tensor):
            found.append(f"{spec.name} did not arrive")
        elif fault := _difference(spec, tensor, digests):
            found.append(fault)
        elif spec.name in names.shapes:
            tensors[spec.name] = tensor
    _refuse(manifest, found)
    return tensors


def digest_of(tensor: Tensor) -> str:
    """sha256 of the bytes in row order."""
    raw = tensor.detach().contiguous().cpu().flatten().view(torch.uint8)
    return hashlib.sha256(raw.numpy().data).hexdigest()


def type_name(dtype: torch.dtype) -> str:
    """As a manifest spells it: `float32`, `bfloat16`."""
    return str(dtype).removeprefix("torch.")


class _Digests:
    """Digests of tensors, those that share memory hashed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...], tuple[int, ...]], str] = {}

    def of(self, tensor: Tensor) -> str:
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if key not in self._known:
            self._known[key] = digest_of(tensor)
        return self._known[key]


def _difference(spec: TensorSpec, tensor: Tensor, digests: _Digests) -> str | None:
    if tuple(tensor.shape) != tuple(spec.shape):
        return f"{spec.name} arrived with the shape {tuple(tensor.shape)}, not {tuple(spec.shape)}"
    if type_name(tensor.dtype) != spec.dtype:
        return f"{spec.name} arrived as {type_name(tensor.dtype)}, not {spec.dtype}"
    if digests.of(tensor) != spec.sha256:
        return f"{spec.name} arrived with other numbers than the manifest's digest says"
    if not _is_finite(tensor):
        return f"{spec.name} holds numbers that are not finite"
    return None


def _is_finite(tensor: Tensor) -> bool:
    """By the extremes, which a NaN takes over: one pass without a mask in memory."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    least, most = torch.aminmax(tensor.detach())
    return bool(torch.isfinite(least) & torch.isfinite(most))


def _listed(what: str, found: list[str]) -> list[str]:
    if not found:
        return []
    shown = ", ".join(found[:_NAMED_IN_AN_ERROR])
    more = len(found) - _NAMED_IN_AN_ERROR
    return [f"{what}: {shown}" + (f" and {more} more" if more > 0 else "")]


def _refuse(manifest: WeightsManifest, found: list[str]) -> None:
    if found:
        shown = "; ".join(found[:_NAMED_IN_AN_ERROR])
        raise WeightsRefusedError(
            f"the weights of {manifest.policy} version {manifest.version} were refused as a whole ({shown}). "
            "The old version serves on; publish a complete set of the model's own names."
        )
