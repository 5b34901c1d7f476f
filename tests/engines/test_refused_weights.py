"""A load that failed, however it failed and whatever runs meanwhile, leaves the old version serving."""

import asyncio
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from rollwright.engines import WeightsRefusedError
from rollwright.engines.embedded import EmbeddedSettings, open_engine
from rollwright.record import Sampling, ScoreRequest, ids
from tests.engines.battery import manifest_of
from tests.engines.small import draw, plain_logprobs, request_of, small_model

TINY = {"head_dim": 16, "hidden_size": 32, "intermediate_size": 48}
SETTINGS = EmbeddedSettings(num_slots=4, max_context_tokens=96, mode="fast")
PROMPT = (1, 2, 3)
SOME = "model.layers.1.mlp.up_proj.weight"
every_swap = pytest.mark.parametrize("swap", ["drain", "continue", "recompute"])


def weights_of(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


class Publisher:
    """Lays weights out, and spoils them in one way."""

    def __init__(self, model):
        self.model = model
        self.given: dict[str, torch.Tensor] = {}
        self.failure: Exception | None = None

    def read(self, manifest):
        if self.failure is not None:
            raise self.failure
        return self.given

    def whole(self, version):
        self.given, self.failure = weights_of(self.model), None
        return manifest_of(self.given, version)

    def failed(self, version):
        manifest = self.whole(version)
        self.failure = OSError("the shared folder is gone")
        return manifest

    def arrived_in_part(self, version):
        manifest = self.whole(version)
        del self.given[SOME]
        return manifest

    def named_in_part(self, version):
        manifest = self.whole(version)
        return replace(manifest, tensors=tuple(spec for spec in manifest.tensors if spec.name != SOME))

    def half_written(self, version):
        manifest = self.whole(version)
        self.given[SOME].view(-1)[self.given[SOME].numel() // 2 :] = 0
        return manifest

    def cut_off(self, version):
        manifest = self.whole(version)
        self.given[SOME] = self.given[SOME][:-1]
        return manifest

    def wrong_digest(self, version):
        manifest = self.whole(version)
        specs = [replace(spec, sha256="0" * 64) if spec.name == SOME else spec for spec in manifest.tensors]
        return replace(manifest, tensors=tuple(specs))

    def not_a_number(self, version):
        self.whole(version)
        self.given[SOME][3, 4] = torch.nan
        return manifest_of(self.given, version)

    def infinite(self, version):
        self.whole(version)
        self.given[SOME][3, 4] = -torch.inf
        return manifest_of(self.given, version)

    def of_another_policy(self, version):
        return replace(self.whole(version), policy="solver")


FAULTS = {
    Publisher.failed: "the shared folder is gone",
    Publisher.arrived_in_part: f"{SOME} did not arrive",
    Publisher.named_in_part: f"missing: {SOME}",
    Publisher.half_written: f"{SOME} arrived with other numbers",
    Publisher.cut_off: f"{SOME} arrived with the shape",
    Publisher.wrong_digest: f"{SOME} arrived with other numbers",
    Publisher.not_a_number: f"{SOME} holds numbers that are not finite",
    Publisher.infinite: f"{SOME} holds numbers that are not finite",
    Publisher.of_another_policy: "'solver'",
}


async def served_version(engine):
    request = ScoreRequest(policy="policy", token_ids=ids([1, 2]), score_from=1, sampling=Sampling(), tensors={})
    return (await engine.score(request)).policy_version


@every_swap
@pytest.mark.case("F91")
@pytest.mark.parametrize("family", ["qwen3", "mistral"], ids=("fast path", "generic path"))
def test_a_load_that_failed_leaves_the_old_version_serving_those_in_flight_and_those_to_come(family, swap):
    old, new = small_model(family, **TINY), small_model(family, seed=1, **TINY)
    publisher = Publisher(new)

    async def run():
        engine = open_engine(old, SETTINGS, publisher.read)
        for fault, sentence in FAULTS.items():
            request = request_of(1, PROMPT, max_tokens=30, chunk_tokens=1, stop_token_ids=frozenset())
            stream = engine.generate(request)
            chunks = [await anext(stream)]
            await engine.pause()  # So that the turn is in flight, whatever time the load takes.
            with pytest.raises((WeightsRefusedError, OSError), match=sentence):
                await engine.load_weights(fault(publisher, 1), swap)
            assert await served_version(engine) == 0
            await engine.resume()
            chunks += [chunk async for chunk in stream]
            await engine.release(request.session)
            after = await draw(engine, request_of(2, PROMPT, max_tokens=3, stop_token_ids=frozenset()))
            await engine.release("s2/0")
            assert {(c.policy_version, c.cache_version) for c in (*chunks, *after.chunks)} == {(0, 0)}
            tokens = [int(token) for chunk in chunks for token in chunk.token_ids]
            assert len(tokens) == 30
            found = np.concatenate([chunk.behavior_logprobs for chunk in chunks])
            np.testing.assert_allclose(found, plain_logprobs(old, [*PROMPT, *tokens], 3), atol=1e-4)
        await engine.load_weights(publisher.whole(1), swap)
        assert await served_version(engine) == 1
        await engine.close()

    asyncio.run(run())


WRITER = """
import sys
body, target = sys.stdin.buffer.read(int(sys.argv[1])), open(sys.argv[2], "wb")
target.write(body[: len(body) // 2])
target.flush()
print("half", flush=True)
sys.stdin.buffer.read()
"""


def write_half_and_die(body, target):
    """Another process writes half of a file and is killed."""
    words = [sys.executable, "-c", WRITER, str(len(body)), str(target)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdin.write(body)
        writer.stdin.flush()
        assert writer.stdout.readline().strip() == b"half"
        writer.kill()


@every_swap
@pytest.mark.row("S232")
def test_a_publisher_killed_in_mid_write_leaves_the_engine_on_the_last_complete_version(tmp_path, swap):
    models = [small_model("qwen3", seed=seed, **TINY) for seed in range(3)]
    folder = {version: tmp_path / f"{version}.safetensors" for version in (1, 2)}

    def read(manifest):
        return load_file(folder[manifest.version])

    async def run():
        engine = open_engine(models[0], SETTINGS, read)
        for version in (1, 2):
            weights = {name: t.contiguous().clone() for name, t in weights_of(models[version]).items()}
            body = save(weights)
            if version == 1:
                folder[version].write_bytes(body)
                await engine.load_weights(manifest_of(weights, version), swap)
                continue
            write_half_and_die(body, folder[version])
            with pytest.raises(Exception, match=r"(?i)header|incomplete|size"):
                await engine.load_weights(manifest_of(weights, version), swap)
        turn = await draw(engine, request_of(1, PROMPT, max_tokens=8, stop_token_ids=frozenset()))
        assert {chunk.policy_version for chunk in turn.chunks} == {1}
        np.testing.assert_allclose(turn.logprobs, plain_logprobs(models[1], [*PROMPT, *turn.token_ids], 3), atol=1e-4)
        await engine.close()

    asyncio.run(run())
