"""What torch sees of the machine, and how the process uses it."""

import gc
import re
from pathlib import Path

import torch

__all__ = ["accelerators", "cpu_capability", "cuda_driver", "set_threads", "spare_imported_objects"]

_DRIVER = Path("/proc/driver/nvidia/version")
_NEW_OBJECTS = 20_000
"""More of them than at the last look, and the collector looks at those; the default is 700."""


def set_threads(count: int) -> None:
    """Let torch use so many threads, in the whole process: engine and learner take turns with them."""
    torch.set_num_threads(count)


def spare_imported_objects() -> None:
    """Let the garbage collector look no more at what is loaded by now, and less often at the rest, once in a process.

    The libraries make half a million objects that never die; looking at them took a fifth of the time of a tool turn.
    Records refer to one another in no circle, and a step makes them by the hundred thousand: looking at them again and
    again while they are made took a sixth of the host's work on a step of a million tokens.
    """
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS, 10, 10)


def cpu_capability() -> str:
    """The vector instructions that torch's kernels were chosen for; part of the deterministic promise."""
    return torch.backends.cpu.get_cpu_capability()


def accelerators() -> tuple[str, ...]:
    """Names of the GPUs, in order."""
    return tuple(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))


def cuda_driver() -> str | None:
    """The version of the driver; None where there is no GPU that torch can use, "unknown" where it cannot be read."""
    if not torch.cuda.is_available():
        return None
    try:
        found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", _DRIVER.read_text(encoding="utf-8"))
    except OSError:
        return "unknown"
    return found[1] if found else "unknown"
