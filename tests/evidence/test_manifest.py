"""A manifest says what was decided, and a resume sees what has changed since."""

import dataclasses

from rollwright.evidence import AlgorithmSection, ConfigValue, manifest_differences
from rollwright.evidence.manifest import manifest_from_json, manifest_to_json
from tests.evidence.runs import START, manifest


def test_a_manifest_round_trips():
    made = manifest()
    assert manifest_from_json(manifest_to_json(made), "here") == made


def test_nothing_differs_between_a_manifest_and_itself_made_again():
    again = dataclasses.replace(manifest().run, run_id="run-2", created_at=START.replace(year=2027))
    assert manifest_differences(manifest(), manifest(run=again)) == ()


def test_a_changed_default_is_named_with_both_values():
    """A new version of the code resolves the same file to other values."""
    stored = manifest(
        configuration=(
            ConfigValue(key="tasks.ratio", value='"by data size"', origin="default"),
            ConfigValue(key="run.keep_checkpoints", value='"all"', origin="default"),
            ConfigValue(key="run.steps", value="2", origin="command line"),
        )
    )
    now = manifest(
        configuration=(
            ConfigValue(key="tasks.ratio", value="1", origin="default"),
            ConfigValue(key="run.keep_checkpoints", value="1", origin="default"),
            ConfigValue(key="run.steps", value="2", origin="recipe.toml"),
        )
    )
    found = [(d.path, d.stored, d.now) for d in manifest_differences(stored, now)]
    assert found == [
        ("configuration.run.keep_checkpoints", '"all"', "1"),
        ("configuration.tasks.ratio", '"by data size"', "1"),
    ]


def test_conditions_of_the_deterministic_promise_are_marked():
    stored = manifest()
    machine = dataclasses.replace(
        stored.machine, cpu_model="another", operating_system="Linux 7", threads={"engine": 2}
    )
    lag = dataclasses.replace(stored.algorithm[0], max_policy_lag=1)
    assert isinstance(lag, AlgorithmSection)
    found = {d.path: d.is_condition for d in manifest_differences(stored, manifest(machine=machine, algorithm=(lag,)))}
    assert found == {
        "machine.cpu_model": True,
        "machine.operating_system": False,
        "machine.threads.engine": True,
        "machine.threads.learner": True,
        "algorithm.0.max_policy_lag": False,
    }


def test_what_makes_two_experiments_of_one_run_is_marked():
    stored = manifest()
    source = dataclasses.replace(stored.data.prompt_sources[0], revision="another")
    now = manifest(
        run=dataclasses.replace(stored.run, config_sha256="another", code_commit="another"),
        model=dataclasses.replace(
            stored.model, tokenizer_revision="another", chat_template_sha256="another", precision_train="another"
        ),
        data=dataclasses.replace(stored.data, prompt_sources=(source,)),
        environment=dataclasses.replace(
            stored.environment, name="another", revision="another", reset_seed_policy="another"
        ),
        reward=dataclasses.replace(stored.reward, rule="another", verifier_revisions={"another": "1"}),
        evaluation=dataclasses.replace(stored.evaluation, protocol_sha256="another", harness_commit="another"),
    )
    found = manifest_differences(stored, now)
    assert {d.path for d in found if d.is_refused} == {
        "run.config_sha256",
        "model.tokenizer_revision",
        "model.chat_template_sha256",
        "data.prompt_sources.0.revision",
        "environment.name",
        "environment.revision",
        "reward.rule",
        "reward.verifier_revisions.another",
        *(f"reward.verifier_revisions.{name}" for name in stored.reward.verifier_revisions),
        "evaluation.protocol_sha256",
    }
    assert {d.path for d in found if d.is_condition and not d.is_refused} == {
        "run.code_commit",
        "model.precision_train",
    }
    assert {d.path for d in found if not d.is_condition} == {
        "environment.reset_seed_policy",
        "evaluation.harness_commit",
    }
