"""Intrusions into a small network: which host is taken when is fixed by the task and never shown."""

from collections.abc import Iterator
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["HOSTS", "WATCH_STEPS", "intrusion_source"]

HOSTS = ("web", "mail", "files", "admin")
WATCH_STEPS = 8
"""Commands of an episode."""
_BUILDER = 1


def intrusion_source(sizes: SplitSizes, *, seed: int = 0) -> TaskSource:
    """Three hosts each are taken, at different steps of the first half.

    Args:
        sizes: distinct tasks wanted; there are 576.
        seed: of the drawing.
    """
    revision = f"intrusions:{digest([_BUILDER, seed])[:16]}"
    return fill_splits(_intrusions(seed), sizes, name="network", revision=revision)


def _intrusions(seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "intrusions"))
    while True:
        steps, hosts = sorted(chance.sample(range(WATCH_STEPS // 2), 3)), chance.sample(HOSTS, 3)
        attacks: dict[str, Json] = {str(step): host for step, host in zip(steps, hosts, strict=True)}
        number = int(digest([attacks])[:8], 16) % 1_000_000
        start: dict[str, Json] = {"step": 0, "seen": "", **dict.fromkeys(HOSTS, "clean")}
        yield Payload(
            messages=(Message(role="user", text=f"network {number}\nkeep the hosts clean"),),
            answer="keep the hosts clean",
            info={"layout": {"attacks": attacks}, "start": start, "goal": {"step": WATCH_STEPS}},
        )
