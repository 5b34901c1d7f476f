"""The weight channel: versions from the learner to the engine, whole or not at all."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor

from rollwright.record import Engine, WeightsManifest
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.parts import Learner

__all__ = ["WeightChannel", "WeightShelf"]


class WeightShelf:
    """Where published weights lie until the engine has read them; its `read` is the engine's WeightReader."""

    def __init__(self) -> None:
        """Start empty."""
        self._shelf: dict[str, Mapping[str, object]] = {}

    def put(self, location: str, weights: Mapping[str, object]) -> None:
        """Lay weights out; the ones before are gone."""
        self._shelf = {location: weights}

    def read(self, manifest: WeightsManifest) -> Mapping[str, object]:
        """The tensors of a manifest.

        Raises:
            KeyError: when they are no longer there.
        """
        return self._shelf[manifest.location]


class WeightChannel:
    """Publishes the learner's weights under the step after which they stood."""

    def __init__(self, learner: Learner, engine: Engine, shelf: WeightShelf, learner_thread: Executor) -> None:
        """Store the ends; `published` is None until the first publication."""
        self._learner = learner
        self._engine = engine
        self._shelf = shelf
        self._thread = learner_thread
        self._published: int | None = None

    @property
    def published(self) -> int | None:
        """The version that serves."""
        return self._published

    async def publish(self, *, version: int, update: int) -> None:
        """Make `version` serve, unless it does already.

        Raises:
            RuntimeRunError: when the engine refuses it; the old version serves on.
        """
        if self._published == version:
            return
        loop = asyncio.get_running_loop()
        manifest = await loop.run_in_executor(self._thread, self._lay_out, version, update)
        try:
            await self._engine.load_weights(manifest, "drain")
        except Exception as error:
            raise RuntimeRunError(
                f"the engine did not take the weights of version {version} ({error}); version {self._published} still "
                "serves. Nothing of the committed steps is lost: `rollwright resume` goes on from the last one."
            ) from error
        self._published = version

    def _lay_out(self, version: int, update: int) -> WeightsManifest:
        manifest = self._learner.manifest(version=version, update=update)
        self._shelf.put(manifest.location, self._learner.weights())
        return manifest
