"""Whether an engine keeps the protocol: one battery that every engine passes, whatever it is made of.

    Subject: how it is opened, what its weights say (the reference), how new ones are published
       └──► check_engine ──► Finding an item: passed, failed with what was seen, or skipped with why

Nothing here knows a test runner, a back-end or a tensor library: the reference gives numpy arrays.
"""

from rollwright.engines.conformance.battery import ITEMS, check_engine
from rollwright.engines.conformance.bigram import BigramModel
from rollwright.engines.conformance.subject import (
    Finding,
    OpenFn,
    PublishFn,
    ReferenceFn,
    Subject,
    varied_prompts,
)

__all__ = [
    "ITEMS",
    "BigramModel",
    "Finding",
    "OpenFn",
    "PublishFn",
    "ReferenceFn",
    "Subject",
    "check_engine",
    "varied_prompts",
]
