"""What of one set of tasks stands in another: equal texts, shared runs of words, near copies, nearest neighbors."""

from rollwright.tasks.contamination.neighbors import Neighbor, nearest_neighbors
from rollwright.tasks.contamination.overlaps import (
    AUDIT_RULES,
    KINDS,
    AskedText,
    Overlap,
    OverlapCount,
    OverlapKind,
    OverlapPair,
    OverlapRules,
    find_overlap,
)

__all__ = [
    "AUDIT_RULES",
    "KINDS",
    "AskedText",
    "Neighbor",
    "Overlap",
    "OverlapCount",
    "OverlapKind",
    "OverlapPair",
    "OverlapRules",
    "find_overlap",
    "nearest_neighbors",
]
