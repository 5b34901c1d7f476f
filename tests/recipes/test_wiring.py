"""Every key that a person may write is read where the run is put together."""

import ast
from pathlib import Path

import pytest

import rollwright
from rollwright.recipes.config import RecipeConfig
from rollwright.recipes.keys import dotted_keys

SOURCE = Path(rollwright.__path__[0])
WIRING = [
    *sorted((SOURCE / "recipes/build").rglob("*.py")),
    *(SOURCE / "recipes" / f"{name}.py" for name in ("runs", "running", "resuming")),
]
OUTSIDE = {
    "run.title": SOURCE / "cli/looking.py",
    "run.labels": SOURCE / "recipes/resolve.py",
    "run.evidence_label": SOURCE / "recipes/resolve.py",
}
"""Keys that are for people alone."""
FROM_THE_MANIFEST = [*(SOURCE / "evaluation").glob("gates*.py"), *SOURCE.glob("record/gates.py")]
"""Gates are judged from a run's folder, by the keys that its manifest holds."""


def attributes(path: Path) -> set[str]:
    return {
        node.attr for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)
    }


@pytest.fixture(scope="module")
def read() -> set[str]:
    return set().union(*map(attributes, WIRING))


@pytest.mark.case("F111")
@pytest.mark.parametrize("key", [key for key in dotted_keys(RecipeConfig) if not key.endswith(".kind")])
def test_every_key_is_read_by_the_wiring(read, key):
    name = key.rpartition(".")[2]
    if key.startswith("gates."):
        assert name in set().union(*map(attributes, FROM_THE_MANIFEST))
    elif key == "gates":
        assert name in attributes(SOURCE / "recipes/config/recipe.py")
    else:
        assert name in (attributes(OUTSIDE[key]) if key in OUTSIDE else read)
