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
