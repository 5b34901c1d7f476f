"""A manifest says what was decided, and a resume sees what has changed since."""

import dataclasses

from rollwright.evidence import UNKNOWN, AlgorithmSection, ConfigValue, manifest_differences
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


def test_a_change_of_the_machine_ends_the_promise_alone():
    stored = manifest()
    machine = dataclasses.replace(
        stored.machine, cpu_model="another", operating_system="Linux 7", threads={"engine": 2}
    )
    run = dataclasses.replace(stored.run, framework_versions={"numpy": "3.0"}, code_commit="another")
    lag = dataclasses.replace(stored.algorithm[0], max_policy_lag=1)
    assert isinstance(lag, AlgorithmSection)
    now = manifest(machine=machine, algorithm=(lag,), run=run)
    assert {d.path: d.effect for d in manifest_differences(stored, now)} == {
        "machine.cpu_model": "promise",
        "machine.operating_system": "noted",
        "machine.threads.engine": "promise",
        "machine.threads.learner": "promise",
        "algorithm.0.max_policy_lag": "noted",
        "run.framework_versions.numpy": "promise",
        "run.code_commit": "noted",
    }


def test_what_makes_two_experiments_of_one_run_needs_a_segment_and_another_model_is_never_gone_on_with():
    stored = manifest()
    source = dataclasses.replace(stored.data.prompt_sources[0], revision="another")
    now = manifest(
        run=dataclasses.replace(stored.run, config_sha256="another", code_sha256="another"),
        model=dataclasses.replace(
            stored.model,
            architecture="another",
            num_parameters=7,
            tokenizer_revision="another",
            chat_template_sha256="another",
            precision_train="another",
        ),
        data=dataclasses.replace(stored.data, prompt_sources=(source,)),
        environment=dataclasses.replace(
            stored.environment, name="another", revision="another", reset_seed_policy="another", image_digest="another"
        ),
        reward=dataclasses.replace(stored.reward, rule="another", verifier_revisions={"another": "1"}),
        evaluation=dataclasses.replace(stored.evaluation, protocol_sha256="another", harness_commit="another"),
        configuration=(ConfigValue(key="run.steps", value="3", origin="command line"),),
        seeds={"run": 8},
        digests={"code/verifiers": "another"},
    )
    found = manifest_differences(stored, now)
    assert {d.path for d in found if d.effect == "refused"} == {
        "model.architecture",
        "model.num_parameters",
        "model.tokenizer_revision",
        "model.chat_template_sha256",
    }
    assert {d.path for d in found if d.effect == "segment"} == {
        "run.config_sha256",
        "run.code_sha256",
        "configuration.run.steps",
        "data.prompt_sources.0.revision",
        "digests.code/verifiers",
        "environment.name",
        "environment.revision",
        "environment.image_digest",
        "reward.rule",
        "reward.verifier_revisions.another",
        *(f"reward.verifier_revisions.{name}" for name in stored.reward.verifier_revisions),
        "evaluation.protocol_sha256",
        "seeds.run",
    }
    assert {d.path for d in found if d.effect == "promise"} == {"model.precision_train"}
    assert {d.path for d in found if d.effect == "noted"} == {
        "environment.reset_seed_policy",
        "evaluation.harness_commit",
    }


def test_another_shape_is_refused_and_a_key_that_one_version_alone_has_is_a_change_of_the_code():
    def of(**values: str):
        return manifest(
            configuration=tuple(
                ConfigValue(key=key.replace("__", "."), value=value, origin="default") for key, value in values.items()
            )
        )

    shape = manifest_differences(of(model__hidden_size="64"), of(model__hidden_size="128"))
    assert [d.effect for d in shape] == ["refused"]
    new_key = manifest_differences(of(), of(model__rope_theta="1000"))
    assert [d.effect for d in new_key] == ["segment"]


def test_where_the_sources_cannot_be_read_the_commit_says_whether_the_code_changed():
    run = dataclasses.replace(manifest().run, code_sha256=UNKNOWN)
    before, after = manifest(run=run), manifest(run=dataclasses.replace(run, code_commit="another"))
    assert [d.path for d in manifest_differences(before, after) if d.effect == "segment"] == ["run.code_sha256"]
