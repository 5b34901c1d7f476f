"""Numbers of what happened since the last batch: outcomes before the filter, duplicates, restarts, restoring."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.algorithms.sampling.dynamic_sampling import DynamicBatch, ProposedGroup

__all__ = ["duplicates_refused", "outcomes_before_filter", "restore_seconds", "watchdog_restarts"]

_LEVELS: Final = ("reward/zero_var_frac", "reward/all_right", "reward/all_wrong")


def outcomes_before_filter(proposed: Sequence[ProposedGroup], *, success_at: float) -> tuple[Diagnostic, ...]:
    """Shares of the groups without contrast, of all that were sampled, before any was filtered (M94).

    Args:
        proposed: every group that was scored since the last batch.
        success_at: reward from which an attempt is right.

    Returns:
        The metrics of the trained batch by the same names, labelled `before_filter`.
    """
    seen = DynamicBatch(target=1, max_rounds=1)
    seen.add(proposed)
    found = seen.close(at_cap="smaller", success_at=success_at).seen
    return tuple(replace(one, labels={"when": "before_filter"}) for one in found if one.name in _LEVELS)


def duplicates_refused(count: int) -> Diagnostic:
    """Deliveries that had been taken before, or were nobody's; none of them is trained."""
    return Diagnostic(name="sys/duplicates_refused", value=float(count), unit="count", num_items=count)


def watchdog_restarts(count: int) -> Diagnostic:
    """Parts of the run that died or hung and were made again."""
    return Diagnostic(name="sys/watchdog_restarts", value=float(count), unit="count", num_items=count)


def restore_seconds(seconds: float) -> Diagnostic:
    """Of the step that a command began with: taking the checkpoint back."""
    return Diagnostic(name="sys/restore_s", value=seconds, unit="s", num_items=1)
