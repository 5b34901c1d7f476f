"""What the manifest says of a run before its first step."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollwright.evidence import Manifest
from rollwright.recipes.build.judge_facts import judge_sections
from rollwright.recipes.build.manifest import ManifestFacts, build_manifest, eligible_rows
from rollwright.recipes.build.pinned import snapshot_of
from rollwright.recipes.build.protocols import build_protocols
from rollwright.recipes.build.world import build_world
from rollwright.recipes.resolve import Resolved, resolve

COMPONENTS = {
    "plain": ([], {"policy_gradient"}),
    "entropy": (["objective=magic"], {"policy_gradient", "entropy"}),
    "drift": (["objective=prime_rl"], {"policy_gradient", "drift"}),
    "successes": (["objective.positive_nll_coefficient=0.1"], {"policy_gradient", "positive_nll"}),
    "divergence in the loss": (["objective.kl_coefficient=0.1"], {"policy_gradient", "kl"}),
    "divergence in the reward": (
        ["objective.kl_coefficient=0.1", 'objective.kl_place="row_rewards"'],
        {"policy_gradient"},
    ),
    "imitation": (
        ["objective.credit=successes", "objective.surrogate=log_likelihood", "objective.ratio=none"],
        {"nll"},
    ),
}


@pytest.mark.parametrize(("settings", "components"), COMPONENTS.values(), ids=COMPONENTS)
def test_every_term_of_the_loss_is_listed_for_the_audit(settings, components):
    rows = eligible_rows(resolve("arithmetic-tool", settings).recipe)
    assert {row.component for row in rows if row.origin == "policy"} == components
    assert [(row.component, row.policy) for row in rows if row.origin == "demonstration"] == [("nll", None)]


def manifest_of(resolved: Resolved, tokenizer: Path) -> Manifest:
    """The manifest of a run of these settings, as far as no model is needed."""
    (tokenizer / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    world = build_world(resolved.recipe)
    try:
        return build_manifest(
            resolved,
            ManifestFacts(
                run_id="run",
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
                source_run_id=None,
                parent_checkpoint_sha256=None,
                architecture="none",
                num_parameters=0,
                initial_weights_sha256="0" * 64,
                tokenizer_revision="none",
                tokenizer=tokenizer,
                environment=world.environment,
                tool_schema_revision="none",
                reward_rule=world.verifiers.composition.revision,
                verifier_revisions={p.verifier.name: p.verifier.revision for p in world.verifiers.composition.parts},
                verifier_weights={p.verifier.name: p.weight for p in world.verifiers.composition.parts},
                judges=judge_sections(resolved.recipe, world.verifiers.composition),
                sandbox_profile=world.sandbox_profile,
                snapshot=snapshot_of(world),
                mixture=world.mixture,
                protocols=build_protocols(resolved.recipe, world, "none"),
                is_deterministic=True,
            ),
        )
    finally:
        world.close()


ON_PURPOSE = {
    "of episodes": (
        "interpreter-tiny",
        ['environment.arguments.isolation="process"'],
        "environment.arguments.isolation",
    ),
    "of a verifier": (
        "arithmetic-tool",
        ['verifier.parts=[{kind="numeric"}, {kind="unit_tests", isolation="process"}]'],
        "verifier.parts.1.isolation",
    ),
}


@pytest.mark.parametrize(("recipe", "settings", "key"), ON_PURPOSE.values(), ids=ON_PURPOSE)
def test_isolation_that_was_given_up_on_purpose_is_written_in_the_manifest(tmp_path, recipe, settings, key):
    manifest = manifest_of(resolve(recipe, settings), tmp_path)
    (written,) = [one for one in manifest.configuration if one.key == key]
    assert json.loads(written.value) == "process"
    assert written.origin == "command line"
    programs = manifest.environment.image_digest
    assert programs is None or programs.startswith("process")
    assert (programs is None) == (recipe == "arithmetic-tool")
