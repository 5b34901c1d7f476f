"""Streams that only a whole update can give, made once before its first gradient."""

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.objective import Objective, TokenStreams

__all__ = ["made_by", "make_stages"]


def make_stages(objective: Objective, streams: TokenStreams, generator: Generator) -> Mapping[str, Tensor]:
    """Make every stream that the objective's stages give, in their order.

    Args:
        objective: its `stages`; its `needs` say which streams are read.
        streams: all rows of an update, with behavior and, where needed, proximal and reference; no current.
        generator: the only source of draws.

    Returns:
        Name to (T,), detached, 0 outside the action mask; empty without stages.
    """
    names = [stage.name for stage in objective.stages]
    if len(set(names)) < len(names):
        raise ObjectiveError(f"{objective.name} has stages {names}; each name may stand once.")
    if not objective.stages:
        return {}
    clean = clean_streams(streams, objective.needs).streams
    made: dict[str, Tensor] = {}
    for stage in objective.stages:
        stream = stage.make(clean, generator).detach()
        if stream.shape != clean.action_mask.shape:
            raise ObjectiveError(
                f"the stage {stage.name!r} of {objective.name} gave shape {tuple(stream.shape)} for "
                f"{len(clean.action_mask)} tokens; give one value a token."
            )
        made[stage.name] = torch.where(clean.action_mask, stream, torch.zeros_like(stream))
    return made


def made_by(streams: TokenStreams, name: str) -> Tensor:
    """The (T,) stream that the stage of this name made; refuses an objective without that stage."""
    found = streams.made.get(name)
    if found is None:
        raise ObjectiveError(
            f"the objective reads what the stage {name!r} makes, but the piece has {sorted(streams.made)}. Put the "
            "stage among the objective's `stages`."
        )
    return found
