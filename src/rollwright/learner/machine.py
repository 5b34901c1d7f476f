"""What torch sees of the machine, and the threads that it may use."""

import torch

__all__ = ["accelerators", "cpu_capability", "set_threads"]


def set_threads(count: int) -> None:
    """Let torch use so many threads, in the whole process: engine and learner take turns with them."""
    torch.set_num_threads(count)


def cpu_capability() -> str:
    """The vector instructions that torch's kernels were chosen for; part of the deterministic promise."""
    return torch.backends.cpu.get_cpu_capability()


def accelerators() -> tuple[str, ...]:
    """Names of the GPUs, in order."""
    return tuple(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))
