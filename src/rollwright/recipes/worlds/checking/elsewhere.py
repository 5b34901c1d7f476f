"""A world played in another process: another order of hashing, another time zone, another moment."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, CheckOrder
from rollwright.recipes.worlds.checking.stage import SLOW_S

__all__ = ["command", "order_text", "play_elsewhere"]

_MODULE = "rollwright.recipes.worlds.checking"


def order_text(order: CheckOrder, scratch: Path) -> str:
    """An order as the other process reads it."""
    asked = {
        "name": order.name,
        "arguments": dict(order.arguments),
        "num_tasks": order.num_tasks,
        "limit_s": order.limit_s,
        "saved": order.saved,
        "path": sys.path,
        "scratch": str(scratch),
    }
    return json.dumps(asked)


def command(mode: str, target: str, scratch: Path, *, settings: Mapping[str, str]) -> list[str]:
    """How the other process is started.

    Args:
        mode: `check` or `replay`.
        target: the descriptor or the file that it writes into.
        scratch: where its temporary files go.
        settings: variables of its environment.
    """
    variables = [f"{name}={value}" for name, value in {**settings, "TMPDIR": str(scratch)}.items()]
    return ["env", *variables, sys.executable, "-m", _MODULE, mode, target]


async def play_elsewhere(order: CheckOrder, scratch: Path) -> Mapping[str, object]:
    """Play all episodes of an order in another process.

    Raises:
        CheckFailedError: where the process gives nothing.
    """
    with tempfile.TemporaryDirectory(dir=scratch.parent) as folder:
        inside = Path(folder) / "scratch"
        inside.mkdir()
        target = Path(folder) / "facts.json"
        settings = {"PYTHONHASHSEED": "4242", "TZ": "XYZ-14"}
        process = await asyncio.create_subprocess_exec(
            *command("replay", str(target), inside, settings=settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(SLOW_S):
                await process.communicate(order_text(order, inside).encode())
        except TimeoutError as error:
            raise CheckFailedError(f"the world played in another process did not end within {SLOW_S:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if not target.is_file():
            raise CheckFailedError(
                f"the process in which the world was played again ended without a word (exit code {process.returncode})"
            )
        return cast("Mapping[str, object]", json.loads(target.read_text(encoding="utf-8")))
