"""A run with a fault in it: the same parts as of any run, one of them behind what strikes.

engine ◄── fault ◄── made again ◄── driver        environment ◄── fault ◄── driver
verifier ◄── fault ◄── breaker ◄── composition    learner, collector ◄── fault ◄── loop ◄── watchdog
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from rollwright.evidence import RunFolder
from rollwright.recipes.build.identity import Identity, manifest_of
from rollwright.recipes.build.model import build_tokenizer
from rollwright.recipes.build.session import Foundation, LoopOrder, lay_foundation, loop_parts
from rollwright.recipes.build.start import first_weights, model_source
from rollwright.recipes.build.verifiers import BuiltVerifiers
from rollwright.recipes.build.world import BuiltWorld, build_world
from rollwright.recipes.drills.faults import Fault
from rollwright.recipes.drills.faulty_engine import FaultyEngine
from rollwright.recipes.drills.faulty_loop import FaultyCollector, FaultyLearner
from rollwright.recipes.drills.faulty_world import FaultyEnvironment, FaultyVerifier
from rollwright.recipes.drills.hearing import Hearing
from rollwright.recipes.drills.machine import end_descendants, unlimited_files
from rollwright.recipes.drills.strikes import Strikes
from rollwright.recipes.resolve import Resolved, recipe_toml
from rollwright.record import Engine, Verifier
from rollwright.rollout import SystemClock
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.runtime.guarded import GuardedVerifier
from rollwright.runtime.loop import Loop
from rollwright.runtime.loop_parts import LoopParts, Stage
from rollwright.runtime.parts import Collector
from rollwright.runtime.restarting import RestartRules
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.watchdog import Patience, Watchdog, WatchRules
from rollwright.verifiers import Composition, Part

__all__ = ["Alteration", "DrillOrder", "run_struck", "unaltered"]

Alteration = Callable[[LoopParts], LoopParts]
"""A further change to the parts of the loop; what a test breaks so that the drill must notice."""

_RESTARTS = RestartRules(silent_s=3.0, first_wait_s=0.05)
_PATIENCE = WatchRules(patience={"learner": Patience(tell_s=3.0, stop_s=6.0)}, run_s=60.0, look_s=0.1)
_BREAKER = BreakerRules(failures=3, open_s=0.2, longest_open_s=1.0, look_s=0.02)
_WAIT_S = 60.0
_BACK, _FORWARD = timedelta(hours=-1), timedelta(days=1)


def unaltered(parts: LoopParts) -> LoopParts:
    """The parts themselves."""
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOrder:
    """One run that is to be struck."""

    resolved: Resolved
    """The recipe, made small."""
    fault: Fault
    seed: int
    """Moves the moment of the strike."""
    path: Path
    """Of the run folder."""
    alter: Alteration = unaltered

    def strikes(self) -> Strikes:
        """When it strikes."""
        fault = self.fault
        return Strikes(first=fault.first + self.seed % fault.spread, every=fault.every, most=fault.most)


def run_struck(order: DrillOrder, hearing: Hearing, limit_s: float) -> int:
    """Train under the fault to the end.

    Args:
        order: what is run.
        hearing: hears it, and may ask it to stop.
        limit_s: after which it counts as hung.

    Returns:
        How often the fault struck.

    Raises:
        Exception: whatever the run stopped with.
        TimeoutError: when it did not end.
    """
    recipe = order.resolved.recipe
    with ExitStack() as stack:
        stack.enter_context(unlimited_files())
        world = build_world(recipe)
        stack.callback(world.close)
        tokenizer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollwright-tokenizer-")))
        build_tokenizer(model_source(recipe, world), tokenizer)
        rig = _Rig(order=order, strikes=order.strikes(), hearing=hearing)
        foundation = lay_foundation(
            recipe, rig.world(world), tokenizer, lambda: first_weights(recipe, world, tokenizer, None)
        )
        manifest = manifest_of(order.resolved, foundation, tokenizer, Identity.new(order.path, None, foundation.model))
        folder = stack.enter_context(RunFolder.create(order.path, manifest, recipe_toml(recipe), tokenizer=tokenizer))
        try:
            asyncio.run(rig.live(foundation, folder, stack, limit_s))
        finally:
            hearing.hits += rig.strikes.hits
            hearing.misses += rig.strikes.misses
        return hearing.hits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    order: DrillOrder
    strikes: Strikes
    hearing: Hearing
    breakers: list[Breaker] = field(default_factory=list[Breaker])
    door: threading.Event = field(default_factory=threading.Event)

    def world(self, world: BuiltWorld) -> BuiltWorld:
        """With the faulty environment and verifiers; what must be closed is the caller's."""
        fault = self.order.fault
        if fault.environment is not None:
            kill = partial(end_descendants, "sandboxes/starter.py")
            return replace(
                world, environment=FaultyEnvironment(world.environment, fault.environment, self.strikes, kill)
            )
        if fault.verifier is not None:
            parts = [self._struck(part) for part in world.verifiers.composition.parts]
            return replace(world, verifiers=BuiltVerifiers(Composition(parts), ExitStack()))
        return world

    def _struck(self, part: Part) -> Part:
        fault = self.order.fault.verifier
        if fault is None or not part.is_counted or part.role == "shaping":
            return part
        kill = partial(end_descendants, "verifiers/math_worker.py")
        struck: Verifier = FaultyVerifier(part.verifier, fault, self.strikes, kill)
        if fault == "is_down":
            breaker = Breaker(f"verifier {struck.name}", _BREAKER, SystemClock(), self.hearing.warned)
            self.breakers.append(breaker)
            struck = GuardedVerifier(struck, breaker, patience_s=_WAIT_S)
        return replace(part, verifier=struck)

    async def live(self, foundation: Foundation, folder: RunFolder, stack: ExitStack, limit_s: float) -> None:
        """Run the loop, struck."""
        shutdown = Shutdown(self.hearing.warned)
        order = LoopOrder(
            folder=folder,
            observer=self.hearing,
            shutdown=shutdown,
            version=0,
            first_group=0,
            balance=None,
            stored=None,
            replay=None,
            watch=self._struck_engine,
            watch_rules=_PATIENCE,
            restart_rules=_RESTARTS,
        )
        parts, _, engine = loop_parts(foundation, order, stack)
        watchdog = parts.watchdog
        assert watchdog is not None, "every run has one"
        for breaker in self.breakers:
            watchdog.explain(breaker.explain)
        self.hearing.follow(shutdown, self.order.fault.stops_at)
        try:
            async with asyncio.timeout(limit_s):
                await Loop(self.order.alter(self._faulty(parts, watchdog))).run()
        except TimeoutError as error:
            raise TimeoutError(f"it did not end within {limit_s:g} s: {watchdog.diagnosis()}") from error
        finally:
            self.door.set()
            await engine.close()

    def _struck_engine(self, engine: Engine) -> Engine:
        fault = self.order.fault.engine
        return engine if fault is None else FaultyEngine(engine, fault, self.strikes)

    def _faulty(self, parts: LoopParts, watchdog: Watchdog) -> LoopParts:
        return replace(
            parts,
            learner=FaultyLearner(parts.learner, self.order.fault.learner, self.strikes, watchdog, self.door),
            stages=tuple(self._faulty_stage(stage) for stage in parts.stages),
            now=partial(self._now, parts.now),
        )

    def _faulty_stage(self, stage: Stage) -> Stage:
        def collector(version: int) -> Collector:
            return FaultyCollector(stage.collector(version), self.strikes, self.order.fault.delivery)

        return replace(stage, collector=collector)

    def _now(self, now: Callable[[], datetime]) -> datetime:
        if self.order.fault.clock == "steady":
            return now()
        self.strikes.hit()
        return now() + {0: timedelta(), 1: _BACK}.get(self.strikes.hits, _FORWARD)
