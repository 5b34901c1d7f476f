"""The weight channel: versions from the learner to the engine, whole or not at all."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from rollwright.record import Engine, EngineLostError, Swap, WeightsManifest
from rollwright.runtime.errors import RuntimeRunError

__all__ = ["KeepFn", "PublicationRule", "PublishingLearner", "WeightChannel", "WeightShelf"]

KeepFn = Callable[[Mapping[str, object]], Mapping[str, object]]
"""What lies on the shelf of the weights that were put there; called where the learner is called."""


class PublishingLearner(Protocol):
    """The learner as the channel sees it; every call blocks and runs in the learner's thread."""

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        """Names, shapes and digests of the weights as they stand."""
        ...

    def weights(self) -> Mapping[str, object]:
        """The weights as they stand."""
        ...


def _themselves(weights: Mapping[str, object]) -> Mapping[str, object]:
    return weights


class WeightShelf:
    """Where published weights lie for the engine; its `read` is the engine's WeightReader.

    What is read has to stay as it was published for as long as anyone reads it. A publication is waited for before the
    next update, so what an engine reads over one may be the learner's own tensors. But an engine that is made again
    reads at any time: where one can be asked for something while the learner trains, a copy is kept. Each copy is new:
    one that was written over would change under an engine that is still reading it.
    """

    def __init__(self, keep: KeepFn = _themselves) -> None:
        """Start empty.

        Args:
            keep: gives what is to be read; by default the tensors themselves, a copy where learning overlaps sampling.
        """
        self._keep = keep
        self._shelf: dict[str, Mapping[str, object]] = {}

    def put(self, location: str, weights: Mapping[str, object]) -> None:
        """Lay weights out; the ones before are gone, first, so that no more than one copy is held."""
        self._shelf = {}
        self._shelf = {location: self._keep(weights)}

    def read(self, manifest: WeightsManifest) -> Mapping[str, object]:
        """The tensors of a manifest.

        Raises:
            KeyError: when they are no longer there.
        """
        return self._shelf[manifest.location]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRule:
    """How versions are published, and what a refusal means."""

    swap: Swap = "drain"
    """What the engine does with turns that run when new weights come."""
    tolerated_refusals: int = 0
    """Refused publications in a row that are a warning, with the old version serving on; the next one is an error."""

    def __post_init__(self) -> None:
        """Refuse a negative count."""
        if self.tolerated_refusals < 0:
            raise RuntimeRunError(
                f"tolerated_refusals is {self.tolerated_refusals}; allowed is 0 (the first stops the run) or more."
            )


_DRAIN = PublicationRule()


class WeightChannel:
    """Publishes the learner's weights under the step after which they stood.

    The engine reads from the shelf, which may hold the learner's own tensors, and lays them out in its own. So nothing
    may train while `publish` is under way.
    """

    def __init__(
        self,
        learner: PublishingLearner,
        engine: Engine,
        shelf: WeightShelf,
        learner_thread: Executor,
        *,
        rule: PublicationRule = _DRAIN,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Store the ends.

        Args:
            learner: its weights are published.
            engine: takes them.
            shelf: the engine's reader reads from it.
            learner_thread: where the learner is called.
            rule: how.
            warn: hears of each refusal that is tolerated; needed where any is.

        Raises:
            RuntimeRunError: for a swap that the engine does not have, or refusals that nobody would hear of.
        """
        if rule.swap not in engine.capabilities.swaps:
            raise RuntimeRunError(
                f"weights are to be published by {rule.swap!r}, and this engine has "
                f"{sorted(engine.capabilities.swaps)}; choose one of these."
            )
        if rule.tolerated_refusals and warn is None:
            raise RuntimeRunError(
                "refused publications are to be let pass, and nobody would hear of them; give `warn`."
            )
        self._learner = learner
        self._engine = engine
        self._shelf = shelf
        self._thread = learner_thread
        self._rule = rule
        self._warn = warn
        self._published: int | None = None
        self._refusals = 0
        self._turn = asyncio.Lock()

    @property
    def published(self) -> int | None:
        """The version that serves; None where that is not known: before the first publication, or after one cut off."""
        return self._published

    async def publish(self, *, version: int, update: int) -> int | None:
        """Make `version` serve, unless it does already.

        Args:
            version: the step after which the weights stand as they are now.
            update: the last optimizer update of that step.

        Returns:
            The version that serves now: an older one where a refusal was tolerated, None where no version was ever
            published and this one was refused.

        Raises:
            RuntimeRunError: when the engine refuses it once too often, or is lost; the old version serves on.
        """
        async with self._turn:
            if self._published == version:
                return version
            loop = asyncio.get_running_loop()
            manifest = await loop.run_in_executor(self._thread, self._lay_out, version, update)
            try:
                await self._engine.load_weights(manifest, self._rule.swap)
            except Exception as error:  # noqa: BLE001 - whatever refused them, the old version serves on
                self._refuse(version, error)
            except BaseException:
                # The engine may take them yet.
                self._published = None
                raise
            else:
                self._published, self._refusals = version, 0
            return self._published

    def _refuse(self, version: int, error: Exception) -> None:
        """Warn of a refusal, or stop at it."""
        self._refusals += 1
        serving = f"version {self._published} still serves" if self._published is not None else "the first still serves"
        sentence = f"the engine did not take the weights of version {version} ({error}); {serving}"
        allowed = self._rule.tolerated_refusals
        if isinstance(error, EngineLostError) or self._refusals > allowed or self._warn is None:
            times = f", after {allowed} refusals in a row that were let pass" if allowed else ""
            raise RuntimeRunError(
                f"{sentence}{times}. Nothing of the committed steps is lost: `rollwright resume` goes on from the "
                "last one."
            ) from error
        self._warn(
            f"{sentence}. This is refusal {self._refusals} of {allowed} in a row that are let pass; what is sampled "
            "now is older than the learner."
        )

    def _lay_out(self, version: int, update: int) -> WeightsManifest:
        manifest = self._learner.manifest(version=version, update=update)
        self._shelf.put(manifest.location, self._learner.weights())
        return manifest
