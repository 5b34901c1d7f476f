"""Whether the tensors of a batch fit each other: else a sentence that names one, what was given and what is allowed."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["check_each", "check_offsets"]


def check_each(streams: Mapping[str, Tensor], count: int, of: str, dtype: torch.dtype | None = None) -> None:
    """Refuse a stream that has not one value for each of what it is about, or has another type.

    Args:
        streams: name to stream; each must have shape (count,).
        count: rows or tokens.
        of: their name, in the plural.
        dtype: that all must have; None where any will do.
    """
    for name, stream in streams.items():
        if stream.shape != (count,):
            raise ObjectiveError(
                f"{name} has shape {tuple(stream.shape)}; for {count} {of} it has ({count},), one value for each."
            )
        if dtype is not None and stream.dtype is not dtype:
            raise ObjectiveError(f"{name} has type {stream.dtype}; it has {dtype}.")


def check_offsets(row_offsets: Tensor, num_tokens: int | None) -> None:
    """Refuse offsets that do not cut a packed stream into rows.

    Args:
        row_offsets: (rows + 1,) integers, from 0 on, never falling. On another device than the host only the shape
            is looked at, because reading values would wait for it.
        num_tokens: of the stream that they cut; None where it is not known.
    """
    if row_offsets.ndim != 1 or not len(row_offsets) or row_offsets.is_floating_point():
        raise ObjectiveError(
            f"row_offsets has shape {tuple(row_offsets.shape)} and type {row_offsets.dtype}; it has (rows + 1,) int64: "
            "where each row starts, and where the last one ends."
        )
    if row_offsets.device.type != "cpu":
        return
    first, last = int(row_offsets[0]), int(row_offsets[-1])
    if first != 0 or bool((row_offsets.diff() < 0).any()):
        raise ObjectiveError(f"row_offsets is {_said(row_offsets)}; it starts at 0 and never falls.")
    if num_tokens is not None and last != num_tokens:
        raise ObjectiveError(f"row_offsets ends at {last}; the stream has {num_tokens} tokens, and the two are equal.")


def _said(offsets: Tensor) -> str:
    shown = ", ".join(str(int(one)) for one in offsets[:8].unbind())
    return f"[{shown}, …]" if len(offsets) > 8 else f"[{shown}]"  # noqa: PLR2004 - what a line holds
