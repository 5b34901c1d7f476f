"""The process in which a world is checked, or in which it is only played, for comparison.

    order on stdin ──► checks ──► events, one JSON object a line, into a descriptor      (check DESCRIPTOR)
                  └──► plays  ──► what was said, one JSON object, into a file             (replay FILE)

It ends as soon as its work is done, whatever the world has left behind, and takes its descendants along.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from rollwright.recipes.build.named import load_named
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.elsewhere import play_elsewhere
from rollwright.recipes.worlds.checking.footprint import adopt_orphans, descendants, end_processes
from rollwright.recipes.worlds.checking.outcomes import CheckOrder
from rollwright.recipes.worlds.checking.session import facts, run_checks
from rollwright.recipes.worlds.checking.stage import Stage
from rollwright.recipes.worlds.table import load_world, world_path


def main() -> None:
    """Do what the arguments say, and end."""
    asked = cast("Mapping[str, object]", json.load(sys.stdin))
    sys.path.extend(path for path in cast("list[str]", asked["path"]) if path not in sys.path)
    order = CheckOrder(
        name=str(asked["name"]),
        arguments=cast("Mapping[str, object]", asked["arguments"]),
        num_tasks=cast("int", asked["num_tasks"]),
        limit_s=cast("float", asked["limit_s"]),
        saved=str(asked["saved"]),
    )
    adopt_orphans()
    scratch = Path(str(asked["scratch"]))
    if sys.argv[1] == "check":
        _Events(int(sys.argv[2])).check(order, scratch)
    else:
        bench = Bench(
            order=order,
            stage=Stage(limit_s=order.limit_s, tell=lambda where, allowed_s: None),
            make=lambda: load_world(order.name, order.arguments),
        )
        Path(sys.argv[2]).write_text(json.dumps(asyncio.run(facts(bench))), encoding="utf-8")
    end_processes(descendants(os.getpid()))
    os._exit(0)


class _Events:
    """What the supervising process is told."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def check(self, order: CheckOrder, scratch: Path) -> None:
        """Run the checks, or say why the name names nothing."""
        try:
            load_named(world_path(order.name))
        except RecipeError as error:
            self._say({"refused": str(error)})
            return
        bench = Bench(
            order=order,
            stage=Stage(limit_s=order.limit_s, tell=lambda where, s: self._say({"at": where, "allowed_s": s})),
            make=lambda: load_world(order.name, order.arguments),
            scratch=scratch,
            elsewhere=lambda given: play_elsewhere(given, scratch),
        )
        asyncio.run(self._run(bench))
        self._say({"done": True})

    async def _run(self, bench: Bench) -> None:
        async for outcome in run_checks(bench, lambda name: self._say({"check": name})):
            self._say({"outcome": [outcome.name, outcome.status, outcome.sentence]})
        # What tasks the world has left in this loop may refuse to end: all is said, and the process ends here.
        self._say({"done": True})

    def _say(self, event: Mapping[str, object]) -> None:
        left = memoryview((json.dumps(event) + "\n").encode())
        while left:
            left = left[os.write(self._descriptor, left) :]


main()
