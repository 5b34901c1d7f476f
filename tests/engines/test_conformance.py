"""The battery passes engines that keep the protocol, and finds each fault at its own item."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from rollwright.engines.conformance import ITEMS, Finding, Subject, check_engine
from rollwright.engines.passing import PassingEngine
from rollwright.record import Chunk, Engine, Scores, logprobs
from tests.engines.conforming import embedded_subject, scripted_subject


def findings(subject: Subject) -> dict[str, Finding]:
    async def run():
        return {finding.item: finding async for finding in check_engine(subject)}

    return asyncio.run(run())


def failed(found: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.sentence for name, finding in found.items() if finding.status == "failed"}


class Faulty(PassingEngine):
    """Passes everything on; a fault changes one thing."""

    def generate(self, request) -> AsyncIterator[Chunk]:
        return self._engine.generate(request)

    async def load_weights(self, weights, swap):
        await self._engine.load_weights(weights, swap)

    async def _through(self, asked, answer):
        return await answer()


class WrongLogprobs(Faulty):
    """As an engine that reports them at temperature 1, whatever was sampled at."""

    async def generate(self, request):
        async for chunk in self._engine.generate(request):
            if request.sampling.temperature in (0.0, 1.0):
                yield chunk
            else:
                yield replace(chunk, behavior_logprobs=logprobs(chunk.behavior_logprobs * request.sampling.temperature))


class WholeVocabulary(Faulty):
    """Draws and reports without top_p."""

    def generate(self, request):
        return self._engine.generate(replace(request, sampling=replace(request.sampling, top_p=1.0)))


class IgnoresStop(Faulty):
    def generate(self, request):
        return self._engine.generate(replace(request, stop_token_ids=frozenset()))


class IgnoresStopStrings(Faulty):
    def generate(self, request):
        return self._engine.generate(replace(request, stop_strings=()))


class LosesCancel(Faulty):
    async def cancel(self, request_id):
        pass


class IgnoresDeadline(Faulty):
    def generate(self, request):
        return self._engine.generate(replace(request, deadline_s=1000.0))


class OneSeed(Faulty):
    def generate(self, request):
        return self._engine.generate(replace(request, seed=1))


class KeepsOldVersion(Faulty):
    async def load_weights(self, weights, swap):
        pass


class SaysNewVersion(Faulty):
    """Keeps the old weights and reports the new version."""

    version = 0
    old: dict[str, int]

    async def generate(self, request):
        async for chunk in self._engine.generate(request):
            yield replace(chunk, policy_version=self.version, cache_version=self.version)

    async def score(self, request) -> Scores:
        return replace(await self._engine.score(request), policy_version=self.version)

    async def load_weights(self, weights, swap):
        self.version = weights.version


class TakesAnything(Faulty):
    """Does not look at digests: takes the version's own specs for those that are wrong."""

    async def load_weights(self, weights, swap):
        if any(spec.sha256 == "0" * 64 for spec in weights.tensors):
            return
        await self._engine.load_weights(weights, swap)


class DropsLastToken(Faulty):
    """Loses the token that ends the turn."""

    async def generate(self, request):
        async for chunk in self._engine.generate(request):
            if chunk.finish == "stop_token":
                yield replace(chunk, token_ids=chunk.token_ids[:-1], behavior_logprobs=chunk.behavior_logprobs[:-1])
            else:
                yield chunk


def with_fault(fault: type[Faulty]) -> Subject:
    sound = embedded_subject()

    def opened() -> Engine:
        return fault(sound.open())

    return replace(sound, open=opened, patience_s=1.5)


@pytest.mark.parametrize("mode", ["fast", "deterministic"])
def test_the_embedded_engine_passes_every_item(mode):
    found = findings(embedded_subject(mode=mode))
    assert {finding.status for finding in found.values()} == {"passed"}, failed(found)
    assert list(found) == [*ITEMS, "restart"]


def test_the_scripted_engine_passes_every_item_that_needs_no_tensors():
    found = findings(scripted_subject())
    assert not failed(found)
    assert [name for name, finding in found.items() if finding.status == "skipped"] == ["broken weights"]


FAULTS = {
    WrongLogprobs: {"temperature"},
    WholeVocabulary: {"top_p"},
    IgnoresStop: {"stop tokens"},
    DropsLastToken: {"stop tokens"},
    IgnoresStopStrings: {"stop strings"},
    LosesCancel: {"cancel"},
    IgnoresDeadline: {"deadline"},
    OneSeed: {"seeds", "draws"},
    KeepsOldVersion: {"new weights"},
    SaysNewVersion: {"new weights"},
    TakesAnything: {"broken weights"},
}
ALSO = {
    WrongLogprobs: {"draws", "top_p", "top_k", "min_p", "concurrent", "restart"},
    WholeVocabulary: {"top_k", "concurrent"},
}
"""Items that ask for the same thing beside others."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_at_its_item(fault):
    found = failed(findings(with_fault(fault)))
    assert FAULTS[fault] & found.keys(), found
    assert found.keys() <= FAULTS[fault] | ALSO.get(fault, set()) | {"broken weights"}, found


def test_an_engine_that_cannot_be_asked_fails_with_what_it_said():
    class Dead(Faulty):
        def generate(self, request):
            raise RuntimeError("no more memory")

    found = failed(findings(with_fault(Dead)))
    assert found["greedy"] == "RuntimeError: no more memory"
    assert "scores" not in found


def test_findings_say_what_was_seen():
    found = failed(findings(with_fault(LosesCancel)))
    assert "1.5 s behind a cancel" in found["cancel"]
    assert np.isfinite(len(found))
