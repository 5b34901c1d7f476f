"""What a run began with, made again: the list of what is trained, and the tokenizer."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from rollwright.evidence import Finding, LoadedRun
from rollwright.recipes.build.manifest import eligible_rows
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.rendering import Renderer, RenderingError, load_renderer

__all__ = ["eligible_findings", "renderer_of_run"]

_READING = ("tokenizers", "transformers", "rollwright")
"""Packages whose other versions may give the same tokenizer another digest."""


def eligible_findings(run: LoadedRun, recipe: RecipeConfig) -> Iterator[Finding]:
    """Where the manifest lets other tokens be trained than the recipe does."""
    if len(run.manifests) > 1 or run.folder.manifest.run.source_run_id is not None:
        return
    said, due = set(run.folder.manifest.eligible), set(eligible_rows(recipe))
    for row in said ^ due:
        which = "it lists" if row in said else "it does not list"
        by = row.policy or "nobody"
        yield Finding(
            place="manifest.json eligible",
            text=f"{which} {row.component} of {row.model} for tokens of origin {row.origin} by {by}",
            expected="what the recipe trains",
            concern="recipe",
        )


def renderer_of_run(tell: Callable[[Iterator[Finding]], None], run: LoadedRun) -> Renderer | None:
    """The renderer of the run's tokenizer; None where it is not the one that the run began with.

    Args:
        tell: hears what is wrong with it.
        run: as read.
    """
    due = run.folder.manifest.model.tokenizer_revision
    try:
        renderer = load_renderer(run.folder.tokenizer)
    except RenderingError as error:
        tell(iter([_finding(f"it cannot be read: {error}", due)]))
        return None
    found = renderer.revision({})
    if found == due or not _reads_alike(run):
        return renderer
    tell(iter([_finding(f"tokenizer, template and grammar of calls have the digest {found[:12]}…", due)]))
    return None


def _reads_alike(run: LoadedRun) -> bool:
    said = run.folder.manifest.run.framework_versions
    try:
        return all(said.get(name) == version(name) for name in _READING)
    except PackageNotFoundError:
        return False


def _finding(text: str, due: str) -> Finding:
    return Finding(
        place="tokenizer/tokenizer.json", text=text, expected=f"{due[:12]}…, as the manifest says", concern="recipe"
    )
