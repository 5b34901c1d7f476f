"""Corruptions of a recorded run, chosen without sight of what checks it: files, episodes, gradients, numbers."""

from tests.evidence.corruptions import episodes, files, gradients
from tests.evidence.corruptions.copies import CORRUPTIONS, Copy, Corruption

__all__ = ["CORRUPTIONS", "Copy", "Corruption", "episodes", "files", "gradients"]
