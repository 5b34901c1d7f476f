"""A working environment to begin with: its files, written with a name in them."""

import keyword
import re
import sys
from importlib import resources
from importlib.metadata import packages_distributions
from pathlib import Path

from rollwright.recipes.errors import RecipeError

__all__ = ["write_skeleton"]

_TEMPLATES = resources.files("rollwright.recipes.worlds") / "templates"
_FILES = {
    "environment.py.txt": "{}.py",
    "test_environment.py.txt": "test_{}.py",
    "recipe.toml.txt": "{}.toml",
    "README.md.txt": "README-{}.md",
}
_PLACE = "__NAME__"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_TAKEN = frozenset({"conftest", "sitecustomize", "usercustomize"})
"""Read by pytest and by Python before anything else."""


def write_skeleton(name: str, folder: Path) -> tuple[Path, ...]:
    """Write an environment's module, tests, recipe and README.

    Args:
        name: of the module.
        folder: that gets the files; made where there is none.

    Returns:
        The files.

    Raises:
        RecipeError: for a name that is none or is taken, a file that exists, or a folder inside rollwright itself.
    """
    _refuse_name(name)
    here = Path(__file__).resolve().parents[2]
    if folder.resolve().is_relative_to(here):
        raise RecipeError(f"{folder} lies inside rollwright itself; give a folder of your own by --into.")
    files = {folder / form.format(name): template for template, form in _FILES.items()}
    taken = [path for path in files if path.exists()]
    if taken:
        raise RecipeError(f"{', '.join(map(str, taken))} exists already; choose another name or folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        path.write_text(text.replace(_PLACE, name), encoding="utf-8")
    return tuple(files)


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise RecipeError(
            f"{name!r} is no name of a Python module; write small letters, digits and underscores, a letter first, at "
            "most 100."
        )
    is_taken = name in sys.stdlib_module_names or name in _TAKEN or name in packages_distributions()
    if is_taken or name.startswith(("test_", "rollwright")):
        raise RecipeError(f"{name!r} would hide another module; choose a name of your own, such as my_{name}.")
