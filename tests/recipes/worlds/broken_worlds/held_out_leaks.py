"""Broken: held-out questions are trained on, under other ids.

Told: that a question stands in both splits.
"""

from dataclasses import replace

from rollwright.tasks import make_task, payload_of
from tests.recipes.worlds.broken_worlds import lamps


def tasks(sizes, seed):
    (pool,) = lamps.tasks(sizes, seed)
    known = [payload_of(task) for task in pool.train[: len(pool.held_out)]]
    leaked = [replace(one, info={**one.info, "copy": True}) for one in known]
    held_out = tuple(make_task(one, source="lamps", revision="1", split="held_out") for one in leaked)
    return (replace(pool, held_out=held_out),)


def load():
    return replace(lamps.load(), tasks=tasks)
