"""Which run this is, and whether it goes on under the conditions that it began with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rollwright.evidence import (
    Difference,
    Event,
    Manifest,
    RunFolder,
    StoredRun,
    differences_text,
)
from rollwright.recipes.build.judge_facts import judge_sections
from rollwright.recipes.build.manifest import ManifestFacts, build_manifest
from rollwright.recipes.build.pinned import parent_sha256, snapshot_of
from rollwright.recipes.build.placement import is_bit_for_bit
from rollwright.recipes.build.session import Foundation
from rollwright.recipes.build.start import checkpoint_at
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved
from rollwright.recipes.withheld import portable_text, without_secrets
from rollwright.record import digest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Identity", "event_now", "manifest_of", "refuse_other_experiment"]

_CODE = ("run.code_sha256", "digests.code/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a manifest says of the run itself; on resume it is what it was."""

    run_id: str
    created_at: datetime
    source_run_id: str | None
    parent_checkpoint_sha256: str | None
    """Of the stored run's first checkpoint, or as it was; None: the recipe's model says what it began with."""
    initial_weights_sha256: str

    @classmethod
    def new(cls, path: Path, source: StoredRun | None, model: "PreTrainedModel") -> "Identity":
        """Of a run that begins now in `path` with the weights of `model`."""
        from rollwright.learner.state import named_weights, tensor_specs

        created_at = datetime.now(UTC)
        specs = tensor_specs(named_weights(model))
        return cls(
            run_id=f"{path.name}-{digest([str(path.resolve()), created_at.isoformat()])[:8]}",
            created_at=created_at,
            source_run_id=None if source is None else source.folder.manifest.run.run_id,
            parent_checkpoint_sha256=None if source is None else checkpoint_at(source.folder, 0).sha256,
            initial_weights_sha256=digest([[s.name, s.dtype, list(s.shape), s.sha256] for s in specs]),
        )

    @classmethod
    def of(cls, manifest: Manifest) -> "Identity":
        """Of a run that goes on."""
        return cls(
            run_id=manifest.run.run_id,
            created_at=manifest.run.created_at,
            source_run_id=manifest.run.source_run_id,
            parent_checkpoint_sha256=manifest.run.parent_checkpoint_sha256,
            initial_weights_sha256=manifest.model.initial_weights_sha256,
        )


def manifest_of(resolved: Resolved, foundation: Foundation, tokenizer: Path, identity: Identity) -> Manifest:
    """The manifest of a run with this identity, from the present code, recipe and machine."""
    from rollwright.learner.models import num_parameters

    recipe, world, model = resolved.recipe, foundation.world, foundation.model
    facts = ManifestFacts(
        run_id=identity.run_id,
        created_at=identity.created_at,
        source_run_id=identity.source_run_id,
        parent_checkpoint_sha256=identity.parent_checkpoint_sha256 or parent_sha256(recipe.model),
        architecture=type(model).__name__,
        num_parameters=num_parameters(model),
        initial_weights_sha256=identity.initial_weights_sha256,
        tokenizer_revision=foundation.renderer.revision({}),
        tokenizer=tokenizer,
        environment=world.environment,
        tool_schema_revision=foundation.rendering_revision,
        reward_rule=world.verifiers.composition.revision,
        verifier_revisions={p.verifier.name: p.verifier.revision for p in world.verifiers.composition.parts},
        verifier_weights={p.verifier.name: p.weight for p in world.verifiers.composition.parts},
        judges=judge_sections(recipe, world.verifiers.composition),
        sandbox_profile=world.sandbox_profile,
        snapshot=snapshot_of(world),
        mixture=world.mixture,
        protocols=foundation.protocols,
        is_deterministic=is_bit_for_bit(recipe),
    )
    return build_manifest(resolved, facts)


def refuse_other_experiment(folder: RunFolder, differences: Sequence[Difference]) -> None:
    """Refuse to add to a run what was made by another environment, verifier, task list, recipe or tokenizer.

    Code alone may be another: it is noted among the events.

    Raises:
        RecipeError: naming what differs.
    """
    code = [d for d in differences if d.path.startswith(_CODE)]
    other = [d for d in differences if d.effect in ("refused", "segment") and d not in code]
    if other:
        raise RecipeError(
            f"{folder.path} is another experiment than what is here now: {differences_text(other, most=3)}. Put back "
            "what it began with, or start a new run."
        )
    if code:
        folder.record_event(event_now("other_code", f"other code added to the run: {differences_text(code, most=3)}"))


def event_now(kind: str, text: str, *, step: int | None = None, path: str | None = None) -> Event:
    """A happening, stamped now; without secrets, and a path as it is stored."""
    fields = {} if path is None else {"path": portable_text(path)}
    told = portable_text(without_secrets(text))
    return Event(at=datetime.now(UTC), kind=kind, text=told, step=step, fields=fields)
