"""Runs of tokens of one policy version, and the version of every token (M112)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["VersionRun", "expand_versions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRun:
    """Tokens `start:stop` of a row were sampled by `version`."""

    version: int
    start: int
    stop: int


def expand_versions(runs: Sequence[VersionRun], *, num_tokens: int) -> NDArray[np.int32]:
    """(num_tokens,) int32 version of each token; the runs cover every token exactly once, in any order."""
    ordered = sorted(runs, key=lambda run: run.start)
    reached = 0
    for run in ordered:
        if run.start != reached or run.stop <= run.start:
            raise ObjectiveError(
                f"a run of version {run.version} covers tokens {run.start} to {run.stop} where {reached} is next; runs "
                "cover every token once."
            )
        reached = run.stop
    if reached != num_tokens:
        raise ObjectiveError(f"the runs end at token {reached} of {num_tokens}; they cover every token once.")
    lengths = [run.stop - run.start for run in ordered]
    return np.repeat(np.asarray([run.version for run in ordered], np.int32), lengths)
