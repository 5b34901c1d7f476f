import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from rollwright.algorithms import grpo
from rollwright.learner.causal_learner import LearnerSettings, make_learner
from rollwright.learner.errors import CheckpointError
from rollwright.learner.models import ModelShape, load_causal_lm, make_model
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from tests.learner.small import batch_of, learner_of, lively_model, plain_scores, two_turn_groups


def trained(tmp_path, *, steps: int = 2):
    learner = learner_of()
    batch = batch_of(two_turn_groups(), grpo())
    for step in range(steps):
        learner.train(batch, grpo(), first_update=step + 1)
    learner.save(tmp_path / "step-000002")
    return learner, batch


def test_a_restored_learner_goes_on_bit_for_bit(tmp_path):
    learner, batch = trained(tmp_path)
    learner.optimizer.num_skipped += 3
    learner.save(tmp_path / "step-000002")
    restored = learner_of(lively_model(seed=9))
    restored.restore(tmp_path / "step-000002")
    assert restored.counters == learner.counters
    assert (restored.optimizer.num_applied, restored.optimizer.num_skipped) == (2, 3)
    for update in (3, 4):
        one, two = (each.train(batch, grpo(), first_update=update).updates[0].outcome for each in (learner, restored))
        assert (one.loss, one.grad_norm, one.learning_rate) == (two.loss, two.grad_norm, two.learning_rate)
        assert one.proximal is not None and two.proximal is not None
        assert np.array_equal(one.proximal, two.proximal, equal_nan=True)
    mine, theirs = learner.weights(), restored.weights()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_schedule_goes_on_where_it_stood(tmp_path):
    trained(tmp_path)
    schedule = Schedule(learning_rate=1.0, warmup_updates=4)
    settings = LearnerSettings(optimizer=OptimizerSettings(schedule=schedule))
    restored = make_learner(lively_model(), settings)
    restored.restore(tmp_path / "step-000002")
    (done,) = restored.train(batch_of(two_turn_groups(), grpo()), grpo(), first_update=3).updates
    assert done.outcome.learning_rate == 0.75


def test_random_state_is_restored(tmp_path):
    learner, _ = trained(tmp_path)
    due = torch.rand(3)
    learner.restore(tmp_path / "step-000002")
    assert torch.equal(torch.rand(3), due)


def test_a_checkpoint_loads_in_transformers_and_gives_the_learners_scores(tmp_path):
    learner, batch = trained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "step-000002", dtype=torch.float32)
    scores = learner.score(batch).logprobs
    assert np.abs(plain_scores(model, batch)[0] - scores)[batch.action_mask].max() < 1e-5
    config = json.loads((tmp_path / "step-000002/config.json").read_text())
    assert "rollwright" not in json.dumps(config)
    assert load_causal_lm(tmp_path / "step-000002").config.model_type == "qwen3"


def test_a_snapshot_that_is_written_after_the_next_update_holds_what_stood_before_it(tmp_path):
    learner, batch = trained(tmp_path)
    snapshot, config = learner.snapshot(), learner.model.config.to_dict()
    learner.train(batch, grpo(), first_update=3)
    (tmp_path / "late").mkdir()
    snapshot.write(tmp_path / "late")
    saved = tmp_path / "step-000002"
    for path in (path for path in saved.rglob("*") if path.is_file()):
        assert path.read_bytes() == (tmp_path / "late" / path.relative_to(saved)).read_bytes(), path.name
    assert learner.model.config.to_dict() == config, "saving fills in a configuration of its own"


def test_nothing_in_a_checkpoint_is_pickled(tmp_path):
    trained(tmp_path)
    kinds = {path.suffix for path in (tmp_path / "step-000002").rglob("*") if path.is_file()}
    assert kinds == {".json", ".safetensors"}


def test_the_reference_is_part_of_a_checkpoint(tmp_path):
    learner, batch = trained(tmp_path)
    learner.freeze_reference()
    due = learner.score(batch).logprobs
    learner.train(batch, grpo(), first_update=3)
    learner.save(tmp_path / "later")
    restored = learner_of()
    restored.restore(tmp_path / "later")
    assert restored.reference is not None
    assert not any(p.requires_grad for p in restored.reference.model.parameters())
    scores = replace(restored, scorer=restored.reference).score(batch).logprobs
    assert (scores == due)[batch.action_mask].all()
    restored.restore(tmp_path / "step-000002")
    assert restored.reference is None


def test_saving_over_leftovers_and_over_an_older_checkpoint_works(tmp_path):
    (tmp_path / ".step-000002.partial").mkdir()
    (tmp_path / ".step-000002.partial/rubbish").write_text("x")
    learner, _ = trained(tmp_path)
    learner.save(tmp_path / "step-000002")
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]
    assert not (tmp_path / "step-000002/rubbish").exists()
    learner.restore(tmp_path / "step-000002")


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "training_state/complete.json").unlink(),
        lambda folder: (folder / "training_state/optimizer.safetensors").unlink(),
        lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 100),
        lambda folder: (folder / "training_state/learner.json").write_text("{}"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_refused_and_changes_nothing(tmp_path, harm):
    trained(tmp_path)
    harm(tmp_path / "step-000002")
    learner = learner_of()
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    with pytest.raises(CheckpointError):
        learner.restore(tmp_path / "step-000002")
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        learner.restore(tmp_path / "missing")


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    trained(tmp_path)
    other = ModelShape(
        vocab_size=61, hidden_size=32, num_layers=2, num_heads=2, num_kv_heads=1, head_size=48, intermediate_size=64
    )
    with pytest.raises(CheckpointError, match="another model"):
        learner_of(make_model(other, seed=1)).restore(tmp_path / "step-000002")


def test_a_manifest_names_every_tensor_tied_ones_too_with_digests_of_their_bytes():
    learner = learner_of()
    manifest, weights = learner.manifest(version=3, update=7), learner.weights()
    assert (manifest.policy, manifest.version, manifest.update, manifest.kind) == ("policy", 3, 7, "full")
    assert {spec.name for spec in manifest.tensors} == set(weights)
    specs = {spec.name: spec for spec in manifest.tensors}
    assert specs["lm_head.weight"].sha256 == specs["model.embed_tokens.weight"].sha256
    for name, tensor in weights.items():
        assert specs[name].shape == tuple(tensor.shape) and specs[name].dtype == "float32"
        assert specs[name].sha256 == hashlib.sha256(tensor.numpy().tobytes()).hexdigest()


def test_an_update_changes_the_digests():
    learner = learner_of()
    before = learner.manifest(version=0, update=0)
    learner.train(batch_of(two_turn_groups(), grpo()), grpo(), first_update=1)
    after = learner.manifest(version=1, update=1)
    changed = [a.name for a, b in zip(after.tensors, before.tensors, strict=True) if a.sha256 != b.sha256]
    assert "lm_head.weight" in changed and len(changed) == len(after.tensors)
