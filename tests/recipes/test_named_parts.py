"""Parts from outside the project that fail do so in a sentence that names them."""

import pytest

from rollwright.recipes.build.environment import build_environment
from rollwright.recipes.build.verifiers import build_verifiers
from rollwright.recipes.config.world import (
    CustomEnvironmentConfig,
    CustomVerifierConfig,
    ToolEnvironmentConfig,
    VerifierConfig,
)
from rollwright.recipes.errors import RecipeError

MODULE = """
class Part:
    name, revision, scope, deadline_s, actors = "part", "1", "trajectory", 1.0, {}
    def open(self): ...
    def verify(self): ...

class Broken(Part):
    @property
    def name(self): raise RuntimeError("no name yet")

class Odd(Part):
    revision = 3

class Fixed(Part):
    open = verify = None

def nothing(): return None
def raises(): raise RuntimeError("no licence")
def leaves(): raise SystemExit(3)
def takes(word): return Part()
number = 3
"""
CALLED = {
    "nothing": "made a NoneType whose name cannot be read",
    "raises": "raises RuntimeError: no licence",
    "leaves": "raises SystemExit: 3",
    "takes": "raises TypeError",
    "number": "is a int; name something that can be called",
    "Broken": "whose name cannot be read: RuntimeError: no name yet",
    "Odd": "whose revision is a int; it must be of type str",
    "Fixed": "is a NoneType; it must be a method",
    "absent": "cannot be loaded: module",
}
IMPORTED = {
    "def (": "raises SyntaxError",
    "raise RuntimeError('at import')": "raises RuntimeError: at import",
    "raise SystemExit(1)": "raises SystemExit: 1",
    "import no_such_module": "No module named",
}


def refusals(path):
    builds = (
        lambda: build_environment(CustomEnvironmentConfig(path=path), answer_form="{}"),
        lambda: build_verifiers(VerifierConfig(parts=(CustomVerifierConfig(path=path),))),
    )
    for build in builds:
        with pytest.raises(RecipeError) as caught:
            build()
        yield str(caught.value)


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"outside_{abs(hash(request.node.name))}"

    def write(text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.parametrize(("name", "says"), CALLED.items())
def test_a_callable_that_makes_no_part_is_named(module, name, says):
    path = f"{module(MODULE)}:{name}"
    for sentence in refusals(path):
        assert sentence.startswith(repr(path))
        assert says in sentence


@pytest.mark.parametrize(("text", "says"), IMPORTED.items())
def test_a_module_that_cannot_be_imported_is_named(module, text, says):
    path = f"{module(text)}:part"
    for sentence in refusals(path):
        assert sentence.startswith(repr(path))
        assert says in sentence


def test_a_part_with_all_that_is_needed_is_taken(module):
    path = f"{module(MODULE)}:Part"
    assert build_environment(CustomEnvironmentConfig(path=path), answer_form="{}").name == "part"
    build_verifiers(VerifierConfig(parts=(CustomVerifierConfig(path=path),))).close()


def test_a_tool_that_cannot_be_called_is_named(module):
    path = f"{module(MODULE)}:number"
    with pytest.raises(RecipeError, match="is a int; name a typed Python function"):
        build_environment(ToolEnvironmentConfig(tools=(path,)), answer_form="{}")
