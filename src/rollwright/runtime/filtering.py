"""Which finished groups and members may be trained: old ones, incomplete ones, and those that teach nothing."""

import math
from collections.abc import Sequence
from typing import Literal

from rollwright.algorithms.sampling.dynamic_sampling import ProposedGroup
from rollwright.algorithms.staleness.incomplete_groups import fate_of_group
from rollwright.record import Group, ScoredTrajectory
from rollwright.runtime.flights import newest_version, oldest_version

__all__ = [
    "IncompleteRule",
    "OverLag",
    "deciding_version",
    "is_enough",
    "proposed_group",
    "split_by_age",
]

IncompleteRule = Literal["train", "filter", "wait"]
"""What becomes of a group in which a slot failed for good (M111): train what came, filter the group, or try that slot
again until it comes."""

OverLag = Literal["expire", "mask"]
"""What becomes of a trajectory over the largest lag (M109): it is expired by its oldest trained token, or its stale
tokens are masked by their own version and the rest is trained."""


def deciding_version(members: Sequence[ScoredTrajectory], rule: OverLag, *, otherwise: int) -> int:
    """Version of the token that decides the lag of a group.

    Args:
        members: that may be trained.
        rule: `expire`: the oldest token of any member; `mask`: the newest, since what is younger is trained.
        otherwise: where nothing was sampled.
    """
    if rule == "expire":
        found = [oldest_version(m.trajectory) for m in members]
        return min((v for v in found if v is not None), default=otherwise)
    found = [newest_version(m.trajectory) for m in members]
    return max((v for v in found if v is not None), default=otherwise)


def split_by_age(
    members: Sequence[ScoredTrajectory], rule: OverLag, *, oldest_allowed: int
) -> tuple[tuple[ScoredTrajectory, ...], tuple[ScoredTrajectory, ...]]:
    """Members that are young enough, and those that are not; one stale sibling does not remove its group.

    Args:
        members: of a group.
        rule: whose token decides.
        oldest_allowed: version of a token that is just inside.
    """
    fresh: list[ScoredTrajectory] = []
    stale: list[ScoredTrajectory] = []
    for member in members:
        version = deciding_version([member], rule, otherwise=oldest_allowed)
        (fresh if version >= oldest_allowed else stale).append(member)
    return tuple(fresh), tuple(stale)


def is_enough(num_members: int, group_size: int, rule: IncompleteRule, *, min_fraction: float) -> bool:
    """True where what came of a group is trained.

    Args:
        num_members: that may be trained.
        group_size: slots that were dispatched.
        rule: of the run; a group that waits loses members by age alone, and what is left of it is trained.
        min_fraction: of the group, of `train`; one member at least.
    """
    least = 1.0 if rule == "filter" else min_fraction
    return fate_of_group("drop", survivors=num_members, group_size=group_size, min_fraction=least) == "train"


def proposed_group(group: Group) -> ProposedGroup:
    """Outcomes of a group as they were scored, for dynamic sampling; NaN where there is none."""
    return ProposedGroup(
        group_id=group.group_id,
        source=group.task.source,
        rewards=tuple(math.nan if isinstance(m.outcome, str) else float(m.outcome) for m in group.members),
    )
