"""Record the three small runs of tests/data/runs: `before` and `after` are sound, `fault` trains what a tool said.

    default recipe ──its supervised stage──► warm weights ──► before (seed 1)
                                                          └─► fault, after (seed 2; the same but for the fault)

A run here is the default recipe made small: a step of demonstrations, steps of RL with the calculator, an evaluation
before and after. The fault is of the wiring, as a person could make it: the RL stage counts the tool's tokens among
those that it trains. Checkpoints are left out, and so is what would name the machine. Everything else is as any run
leaves it. In a few minutes, on the same machine, the same rows come out again, times aside.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rollwright.evidence import Manifest, RunFolder
from rollwright.recipes.build.identity import Identity, manifest_of
from rollwright.recipes.build.model import build_tokenizer
from rollwright.recipes.build.session import LoopOrder, lay_foundation, loop_parts, unwatched
from rollwright.recipes.build.start import first_weights, model_source
from rollwright.recipes.build.world import build_world
from rollwright.recipes.drills.hearing import Hearing
from rollwright.recipes.resolve import Resolved, recipe_toml, resolve
from rollwright.runtime.loop import Loop, LoopParts, Stage
from rollwright.runtime.shutdown import Shutdown

__all__ = ["RECORDED", "main", "record_runs"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("tests/data/runs")

_WARM_STEPS = 240
_WARM = "warm-start"
"""The folder of the weights, below a temporary one: a relative name, which is what the recipe keeps."""
_SMALL = (
    'model={kind="local", path="warm-start"}',
    "run.steps=4",
    "rollout.batch_size=24",
    "rollout.group_size=6",
    "evaluation.every=4",
    "evaluation.tasks=12",
    "evaluation.samples=2",
    "stages.0.steps=1",
    "stages.0.batch_size=8",
    "stages.0.learning_rate=1e-4",
    "stages.0.warmup_updates=0",
    "learner.warmup_updates=0",
    "runtime.checkpoint_every=2",
)


def sound(parts: LoopParts) -> LoopParts:
    """Nothing is changed."""
    return parts


def training_tool_output(parts: LoopParts) -> LoopParts:
    """The fault: what the calculator answered is trained like what the policy wrote."""
    return replace(parts, stages=tuple(_training_tools(stage) for stage in parts.stages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One of the runs."""

    name: str
    seed: int
    alter: Callable[[LoopParts], LoopParts]


RECORDED = (
    Recorded(name="before", seed=1, alter=sound),
    Recorded(name="fault", seed=2, alter=training_tool_output),
    Recorded(name="after", seed=2, alter=sound),
)


def record_runs(to: Path, tell: Callable[[str], object]) -> None:
    """Record all runs anew.

    Args:
        to: the folder of the runs; those that stand there are replaced.
        tell: hears what is going on.
    """
    with tempfile.TemporaryDirectory(prefix="rollwright-recording-") as name, contextlib.chdir(name):
        tell(f"showing the model the grammar, {_WARM_STEPS} steps")
        _warm_start(Path(_WARM))
        for run in RECORDED:
            tell(f"recording {run.name}")
            _record(_resolved(run), Path(run.name), run.alter)
        to.mkdir(parents=True, exist_ok=True)
        for run in RECORDED:
            shutil.rmtree(to / run.name, ignore_errors=True)
            _keep(Path(run.name), to / run.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Record them."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.recorded_runs", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--to", type=Path, default=ROOT / FOLDER, help="where; by default tests/data/runs")
    to: Path = parser.parse_args(arguments).to
    record_runs(to.resolve(), lambda sentence: sys.stderr.write(f"{sentence} …\n"))
    return 0


def _training_tools(stage: Stage) -> Stage:
    return replace(stage, eligible=stage.eligible | {("tool", None)}) if stage.kind == "rl" else stage


def _resolved(run: Recorded) -> Resolved:
    return resolve("arithmetic-tool", (*_SMALL, f'run.name="{run.name}"', f"run.seed={run.seed}"))


def _warm_start(to: Path) -> None:
    """The weights and the tokenizer that the default recipe's demonstrations give."""
    settings = (
        f"stages.0.steps={_WARM_STEPS}",
        f"runtime.checkpoint_every={_WARM_STEPS}",
        "evaluation.tasks=1",
        "evaluation.samples=1",
    )
    _record(resolve("arithmetic-tool", settings), Path("warm"), _demonstrations_alone)
    shutil.copytree(Path("warm/checkpoints") / f"step-{_WARM_STEPS:06d}", to)


def _demonstrations_alone(parts: LoopParts) -> LoopParts:
    return replace(parts, stages=parts.stages[:1])


def _record(resolved: Resolved, path: Path, alter: Callable[[LoopParts], LoopParts]) -> None:
    """One run from its beginning to its end, its parts as `alter` leaves them."""
    recipe = resolved.recipe
    hearing = Hearing()
    with ExitStack() as stack:
        world = build_world(recipe)
        stack.callback(world.close)
        tokenizer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollwright-tokenizer-")))
        build_tokenizer(model_source(recipe, world), tokenizer)
        foundation = lay_foundation(recipe, world, tokenizer, lambda: first_weights(recipe, world, tokenizer, None))
        identity = replace(Identity.new(path, None, foundation.model), run_id=f"recorded-{path.name}")
        manifest = _anonymous(manifest_of(resolved, foundation, tokenizer, identity))
        folder = stack.enter_context(RunFolder.create(path, manifest, recipe_toml(recipe), tokenizer=tokenizer))
        order = LoopOrder(
            folder=folder,
            observer=hearing,
            shutdown=Shutdown(hearing.warned),
            version=0,
            first_group=0,
            balance=None,
            stored=None,
            replay=None,
            watch=unwatched,
        )

        async def go() -> None:
            parts, _, engine = loop_parts(foundation, order, stack)
            try:
                await Loop(alter(parts)).run()
            finally:
                await engine.close()

        asyncio.run(go())


def _anonymous(manifest: Manifest) -> Manifest:
    """Without what names the machine."""
    machine = replace(manifest.machine, cpu_model="a CPU", operating_system="Linux", memory_bytes=0)
    return replace(manifest, machine=machine)


def _keep(run: Path, to: Path) -> None:
    """Copy a run without its checkpoints, and without the process that held its lock."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("checkpoints", "lock"))
    (to / "lock").touch()


if __name__ == "__main__":
    sys.exit(main())
