"""Names of devices, as torch spells them; whether this machine has one is asked where a run is built."""

import re
from typing import Annotated

from pydantic import AfterValidator

__all__ = ["DeviceName"]

_FORM = re.compile(r"cpu|cuda(:(0|[1-9][0-9]{0,3}))?", re.ASCII)


def _named(device: str) -> str:
    if _FORM.fullmatch(device) is None:
        raise ValueError(f'"{device}" was given; allowed are cpu, cuda (the first GPU), and cuda:N (GPU N, from 0 on)')
    return device


DeviceName = Annotated[str, AfterValidator(_named)]
"""`cpu`, `cuda` or `cuda:N`."""
