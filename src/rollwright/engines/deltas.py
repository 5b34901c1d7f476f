"""Weights sent as what changed: exact to the bit, smaller where few numbers moved.

old ──┐
      ├──► make_delta ──► Delta: for each tensor the places that differ and their new bytes ──┐
new ──┘                                                                                       ├──► apply_delta ──► new
old ──────────────────────────────────────────────────────────────────────────────────────────┘

Numbers are compared and carried as their bytes, so that no rounding, no sign of zero and no NaN is lost. A tensor of
which so much changed that places and values would take more than all of it is sent whole.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.errors import WeightsRefusedError

__all__ = ["Arrays", "Change", "Delta", "apply_delta", "make_delta"]

Arrays = Mapping[str, NDArray[np.generic]]
"""Tensors by name; of a type that numpy lacks, as bits: bfloat16 as uint16."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """What became of one tensor."""

    places: NDArray[np.uint32] | None
    """(c,) of the flat tensor, rising; None where it is sent whole."""
    values: NDArray[np.generic]
    """(c,) at these places, or the whole tensor."""

    @property
    def num_bytes(self) -> int:
        """Of values and places together."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delta:
    """What leads from one set of weights to another, and to no set from any other."""

    base_sha256: str
    """Of all bytes that it was made from."""
    changes: Mapping[str, Change]
    """Of the tensors that changed."""

    @property
    def num_bytes(self) -> int:
        """What has to be sent: values, and the places that say where they go."""
        return sum(change.num_bytes for change in self.changes.values())


def make_delta(old: Arrays, new: Arrays) -> Delta:
    """What changed between two sets of weights.

    Args:
        old: that the other side has.
        new: of the same names, shapes and types.

    Raises:
        WeightsRefusedError: for sets that differ in more than their numbers.
    """
    if old.keys() != new.keys():
        raise WeightsRefusedError(
            f"no delta leads from weights with {sorted(old.keys() - new.keys())} to ones with "
            f"{sorted(new.keys() - old.keys())}; send the whole set."
        )
    found = {name: change for name in sorted(new) if (change := _change(name, old[name], new[name])) is not None}
    return Delta(base_sha256=_digest(old), changes=MappingProxyType(found))


def apply_delta(old: Arrays, delta: Delta) -> dict[str, NDArray[np.generic]]:
    """The new weights, bit for bit; `old` is not touched.

    Args:
        old: what the delta was made from.
        delta: to be applied.

    Raises:
        WeightsRefusedError: for other weights than the delta was made from.
    """
    if _digest(old) != delta.base_sha256:
        raise WeightsRefusedError(
            "the delta was made from other weights than these; apply the deltas in order, or send the whole set."
        )
    return {name: _changed(array, delta.changes.get(name)) for name, array in old.items()}


def _change(name: str, old: NDArray[np.generic], new: NDArray[np.generic]) -> Change | None:
    if old.shape != new.shape or old.dtype != new.dtype:
        raise WeightsRefusedError(
            f"{name} was {old.dtype}{list(old.shape)} and is {new.dtype}{list(new.shape)}; a delta changes numbers "
            "alone. Send the whole set."
        )
    places = np.flatnonzero((_bytes(old) != _bytes(new)).any(axis=1)).astype(np.uint32)
    if not len(places):
        return None
    values = np.ascontiguousarray(new).reshape(-1)
    sparse = Change(places=places, values=values[places])
    whole = Change(places=None, values=values.copy())
    return sparse if sparse.num_bytes < whole.num_bytes else whole


def _changed(array: NDArray[np.generic], change: Change | None) -> NDArray[np.generic]:
    if change is None:
        return array.copy()
    if change.places is None:
        return change.values.reshape(array.shape).copy()
    flat = np.array(array).reshape(-1)
    flat[change.places] = change.values
    return flat.reshape(array.shape)


def _bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """As rows of the bytes of a number."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)


def _digest(arrays: Arrays) -> str:
    state = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        state.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()
