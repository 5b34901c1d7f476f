"""vLLM itself behind the protocol; skipped where its environment is not made."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from rollwright.cli.main import run_command
from rollwright.engines.conformance import ITEMS, Subject, varied_prompts
from rollwright.engines.served import VllmSettings, open_vllm
from rollwright.engines.served.opening import SERVICE
from rollwright.learner.forward import make_scorer
from rollwright.learner.probing import context_logprobs
from rollwright.learner.state import named_weights, tensor_specs
from rollwright.recipes.build.engine import files_of, served_rule
from rollwright.recipes.resolve import resolve
from rollwright.record import WeightsManifest
from rollwright.runtime.probes import EngineProbe, fixed_contexts
from tests.engines.conforming import reference_of
from tests.engines.letters import as_text
from tests.engines.small import VOCAB, small_model
from tests.engines.test_conformance import failed, findings

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("ROLLWRIGHT_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
FORGETFUL = Path(__file__).with_name("vllm_that_forgets_its_head.py")
MAX_CONTEXT = 128

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.is_file(),
        reason=f"there is no {PYTHON}; `make setup-vllm` makes it, or ROLLWRIGHT_VLLM_PYTHON names another",
    ),
]


def manifest_of(model, version):
    return WeightsManifest(
        policy="policy",
        version=version,
        update=version,
        kind="full",
        base_version=None,
        location="memory:",
        tensors=tensor_specs(named_weights(model)),
    )


def opened(folder, models, script=SERVICE):
    if not folder.exists():
        models[0].save_pretrained(folder)
    settings = VllmSettings(python=PYTHON, num_slots=8, max_context_tokens=MAX_CONTEXT)
    file_of = files_of(lambda manifest: dict(named_weights(models[manifest.version % 2])))
    return open_vllm(folder, settings, script=script, file_of=file_of, decode_text=as_text)


@pytest.mark.parametrize(("family", "is_tied"), [("qwen3", True), ("llama", False)])
def test_it_passes_every_item_of_the_battery(tmp_path, family, is_tied):
    models = [small_model(family, seed=seed, tie_word_embeddings=is_tied) for seed in (0, 1)]
    found = findings(
        Subject(
            open=lambda: opened(tmp_path / "model", models),
            reference=reference_of(models),
            prompts=varied_prompts(VOCAB, 24),
            publish=lambda version: manifest_of(models[version % 2], version),
            decode_text=as_text,
        )
    )
    assert {finding.status for finding in found.values()} == {"passed"}, failed(found)
    assert list(found) == [*ITEMS, "restart"]


def probed(folder, script):
    """What the probe says of vLLM after an update of ordinary size."""
    model = small_model("qwen3")
    folder.mkdir()
    model.save_pretrained(folder)
    chance = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-3 * torch.randn(parameter.shape, generator=chance).sign())
    scorer = make_scorer(model)
    recipe = resolve("arithmetic-tool", ["engine.kind=vllm"]).recipe

    async def run():
        engine = await asyncio.to_thread(opened, folder, [model, model], script)
        with ThreadPoolExecutor(max_workers=1) as thread:
            probe = EngineProbe(
                engine,
                lambda contexts: context_logprobs(scorer, contexts),
                thread,
                fixed_contexts(VOCAB),
                rule=served_rule(recipe, "warn"),
            )
            try:
                await engine.load_weights(manifest_of(model, 1), "drain")
                return await probe.check(1)
            finally:
                await engine.close()

    return asyncio.run(run())


def test_its_weights_are_the_learners_after_an_update(tmp_path):
    report = probed(tmp_path / "model", SERVICE)
    assert report.warning is None
    assert report.max_logprob_gap < 1e-4


def test_its_own_reload_which_forgets_a_tied_head_is_found(tmp_path):
    report = probed(tmp_path / "model", FORGETFUL)
    assert "log-probability" in str(report.warning)


@pytest.mark.training
def test_a_recipe_trains_through_it(tmp_path, capsys):
    run = tmp_path / "run"
    smaller = ["run.steps=2", "learner.warmup_updates=1", "rollout.batch_size=16", "evaluation.tasks=8"]
    smaller += [f"stages.warm_start.{key}" for key in ("steps=1", "warmup_updates=0", "batch_size=8")]
    smaller += ["evaluation.samples=1", "model.tokenizer_texts=100"]
    chosen = ["engine.kind=vllm", f"engine.python={PYTHON}", "engine.num_slots=16", *smaller]
    settings = [word for one in chosen for word in ("--set", one)]
    assert run_command(["train", "arithmetic-tool", "--run-dir", str(run), *settings]) == 0
    capsys.readouterr()
    asked = "SELECT max(value) AS worst, count(*) AS n FROM metrics WHERE name = 'mismatch/probe_logp_abs'"
    assert run_command(["query", str(run), asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert found["n"] >= 2
    assert found["worst"] < 1e-3
