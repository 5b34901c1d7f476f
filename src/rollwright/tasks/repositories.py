"""Repair of a small repository: seeded packages with one bug, their past, tests to see, and tests that stay hidden.

    template ──► names and numbers ──► the right package ──► one bug ──► the repository that an episode shows
                                            │                   │
                                            └──── calls in both ┴──► differ: fail to pass      equal: pass to pass

A test is a call with the value that the right package gives. One failing call and some passing ones stand in the
repository as a unittest file; the others are hidden: only a verifier reads them, and expected values never enter a
sandbox. The past is told in commits that all hold the bug, so no earlier state is a solution.
"""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import cast

from rollwright.record import Message, Task, canonical_json, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.mixture import Stratum
from rollwright.tasks.patches import make_patch
from rollwright.tasks.payload import Json, Payload, payload_of
from rollwright.tasks.plain_values import PLAIN_VALUES_REVISION, plain_value
from rollwright.tasks.repository_templates import TEMPLATES, Bug, Template
from rollwright.tasks.source import SplitSizes, fill_splits

__all__ = ["Commit", "Fix", "HiddenTest", "Repository", "repository_of", "repository_row", "repository_strata"]

SOURCE = "repositories"
_BUILDER = 1
"""Of templates and of how a task is drawn; part of the revision."""
_PACKAGES = ("atlas", "birch", "cobalt", "delta", "ember", "fjord", "gable", "harbor", "iris", "juniper", "kestrel")
_DRAWS = 24
"""Calls drawn for each function, of which few are kept."""
_KEPT = {False: 3, True: 2}
"""Calls kept of each function: of those whose value the bug changes, and of those whose value it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A state of the repository in its past."""

    message: str
    files: Mapping[str, str]
    """All of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What the reference solver changes."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenTest:
    """A call that no episode sees."""

    test_id: str
    function: str
    """`package.module:name`."""
    arguments: Sequence[Json]
    expected: Json
    """Of `plain_value`, or `["raises", name]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What a task is about."""

    package: str
    files: Mapping[str, str]
    """With the bug; what an episode begins with."""
    history: tuple[Commit, ...]
    """The last has these files."""
    fix: Fix
    fail_to_pass: tuple[HiddenTest, ...]
    pass_to_pass: tuple[HiddenTest, ...]

    @property
    def fixed(self) -> dict[str, str]:
        """The files without the bug."""
        return {**self.files, self.fix.path: self.files[self.fix.path].replace(self.fix.old, self.fix.new)}


def repository_strata(sizes: SplitSizes, *, seed: int) -> tuple[Stratum, ...]:
    """One stratum for each template, of equal weight.

    Args:
        sizes: distinct tasks wanted over all templates.
        seed: of names, numbers, bugs and calls.
    """
    revision = f"repositories:{digest([_BUILDER, PLAIN_VALUES_REVISION, seed])[:16]}"
    count = len(TEMPLATES)
    part = SplitSizes(train=max(1, round(sizes.train / count)), held_out=round(sizes.held_out / count))
    strata: list[Stratum] = []
    for name, template in TEMPLATES.items():
        source = fill_splits(_payloads(name, template, seed), part, name=SOURCE, revision=revision)
        strata.append(Stratum(name=name, weight=1 / count, train=source.train, held_out=source.held_out))
    return tuple(strata)


def repository_of(task: Task) -> Repository:
    """What a task is about.

    Raises:
        TaskError: for a task that holds no repository.
    """
    info = payload_of(task).info
    try:
        fix = cast("Mapping[str, str]", info["fix"])
        tests = cast("Mapping[str, Sequence[Sequence[Json]]]", info["tests"])
        history = cast("Sequence[Mapping[str, Json]]", info["history"])
        return Repository(
            package=cast("str", info["package"]),
            files=cast("Mapping[str, str]", info["files"]),
            history=tuple(
                Commit(message=cast("str", c["message"]), files=cast("Mapping[str, str]", c["files"])) for c in history
            ),
            fix=Fix(path=fix["path"], old=fix["old"], new=fix["new"]),
            fail_to_pass=tuple(_test(row) for row in tests["fail_to_pass"]),
            pass_to_pass=tuple(_test(row) for row in tests["pass_to_pass"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TaskError(f"task {task.task_id} holds no repository: {type(error).__name__}: {error}") from error


def repository_row(task: Task) -> dict[str, Json]:
    """The task as a row in the form of SWE-bench: a patch as the answer, tests by name.

    Args:
        task: of this module. The hidden tests are named and not shown; a row's `patch` is the solution.
    """
    repository = repository_of(task)
    return {
        "instance_id": task.task_id.replace("/", "__"),
        "repo": f"generated/{repository.package}",
        "base_commit": digest(canonical_json(repository.files)),
        "problem_statement": payload_of(task).messages[-1].text,
        "patch": make_patch(repository.files, repository.fixed),
        "FAIL_TO_PASS": [test.test_id for test in repository.fail_to_pass],
        "PASS_TO_PASS": [test.test_id for test in repository.pass_to_pass],
    }


def _test(row: Sequence[Json]) -> HiddenTest:
    test_id, function, arguments, expected = row
    return HiddenTest(
        test_id=cast("str", test_id),
        function=cast("str", function),
        arguments=cast("Sequence[Json]", arguments),
        expected=expected,
    )


def _payloads(name: str, template: Template, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, SOURCE, name))
    while True:
        for bug in template.bugs:
            payload = _payload(name, template, bug, chance)
            if payload is not None:
                yield payload


def _payload(name: str, template: Template, bug: Bug, chance: Random) -> Payload | None:
    """One task, or None where too few calls tell the right package from the broken one."""
    package, a, b = chance.choice(_PACKAGES), chance.randint(*template.a), chance.randint(*template.b)

    def filled(text: str) -> str:
        return text.replace("@PKG@", package).replace("@A@", str(a)).replace("@B@", str(b))

    right = {f"{package}/{module}.py": filled(source) for module, source in template.modules.items()}
    fix = Fix(path=f"{package}/{bug.module}.py", old=filled(bug.wrong), new=filled(bug.right))
    wrong = {**right, fix.path: right[fix.path].replace(fix.new, fix.old)}
    if right[fix.path].count(fix.new) != 1 or wrong[fix.path].count(fix.old) != 1:
        raise TaskError(f"bug {bug.symptom!r} of template {name} does not stand in one place")
    failing, passing = _told_apart(template, (package, a, b), (right, wrong), chance)
    if len(failing) < 3 or len(passing) < 3:
        return None
    shown, failing = failing[0], failing[1:]
    visible = [shown, *passing[:: max(1, len(passing) // 4)][:4]]
    files = {**wrong, **_around(package, visible)}
    info: dict[str, Json] = {
        "slice": name,
        "package": package,
        "files": files,
        "history": [{"message": c.message, "files": c.files} for c in _history(package, files)],
        "fix": {"path": fix.path, "old": fix.old, "new": fix.new},
        "tests": {
            "fail_to_pass": [[t.test_id, t.function, t.arguments, t.expected] for t in failing],
            "pass_to_pass": [[t.test_id, t.function, t.arguments, t.expected] for t in passing],
        },
    }
    question = (
        f"The package `{package}` has a bug. A user reports: {filled(bug.symptom)} For instance {_call(shown)} "
        f"should be {_said(shown.expected)}. Repair it."
    )
    return Payload(messages=(Message(role="user", text=question),), answer=fix.new, info=info)


def _told_apart(
    template: Template,
    named: tuple[str, int, int],
    packages: tuple[Mapping[str, str], Mapping[str, str]],
    chance: Random,
) -> tuple[list[HiddenTest], list[HiddenTest]]:
    """Calls whose value the bug changes, and calls whose value it does not; few of each function."""
    package, a, b = named
    right, wrong = (_Package(files) for files in packages)
    failing: list[HiddenTest] = []
    passing: list[HiddenTest] = []
    for probe, draw in template.probes.items():
        module, name = probe.split(":")
        function = f"{package}.{module}:{name}"
        kept: dict[bool, dict[str, HiddenTest]] = {True: {}, False: {}}
        for _ in range(_DRAWS):
            arguments = draw(chance, a, b)
            expected = right.called(function, arguments)
            is_same = expected == wrong.called(function, arguments)
            if len(side := kept[is_same]) < _KEPT[is_same]:
                key = canonical_json(arguments)
                test_id = f"test_{module}.{name}[{digest(key)[:8]}]"
                side[key] = HiddenTest(test_id=test_id, function=function, arguments=arguments, expected=expected)
        failing += kept[False].values()
        passing += kept[True].values()
    chance.shuffle(failing)
    return failing, passing


class _Package:
    """Modules of our own templates, loaded from their text without a place on disk."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._sources = {path.removesuffix(".py").replace("/", "."): text for path, text in files.items()}
        self._loaded: dict[str, ModuleType] = {}

    def called(self, function: str, arguments: Sequence[Json]) -> list[Json]:
        """The value of a call as plain JSON."""
        module, name = function.split(":")
        found = cast("Callable[..., object]", vars(self._module(module))[name])
        try:
            return plain_value(found(*arguments))
        except Exception as error:  # noqa: BLE001 - what a broken package raises is the value that tells it apart
            return ["raises", type(error).__name__]

    def _module(self, name: str) -> ModuleType:
        if name not in self._loaded:
            module = ModuleType(name)
            # Its imports find the other modules of this package; its builtins are a copy.
            vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._imported}
            self._loaded[name] = module
            exec(compile(self._sources[name], name, "exec"), vars(module))  # noqa: S102 - a template of this project
        return self._loaded[name]

    def _imported(self, name: str, *details: object) -> ModuleType:
        if name not in self._sources:
            raise TaskError(f"a template imports {name}; it may import its own modules alone")
        return self._module(name)


def _around(package: str, visible: Sequence[HiddenTest]) -> dict[str, str]:
    """The files beside the modules: the visible tests, and what a repository has."""
    modules = sorted({test.function.split(":")[0].split(".")[1] for test in visible})
    lines = ["import unittest", "", *(f"from {package} import {module}" for module in modules), "", ""]
    lines.append("class Tests(unittest.TestCase):")
    for number, test in enumerate(visible):
        lines.append(f"    def test_{test.function.split(':')[1]}_{number}(self):")
        expected = cast("Sequence[Json]", test.expected)
        if expected[0] == "raises":
            lines += [f"        with self.assertRaises({expected[1]}):", f"            {_call(test)}", ""]
        else:
            lines += [f"        self.assertEqual({_call(test)}, {_literal(expected)})", ""]
    return {
        "README.md": f"# {package}\n\nRun the tests with `python -m unittest`.\n",
        f"{package}/__init__.py": "",
        "tests/__init__.py": "",
        f"tests/test_{package}.py": "\n".join(lines).rstrip("\n") + "\n",
    }


def _call(test: HiddenTest) -> str:
    path, name = test.function.split(":")
    return f"{path.split('.')[1]}.{name}({', '.join(repr(argument) for argument in test.arguments)})"


def _said(plain: Json) -> str:
    kind, value = cast("tuple[str, Json]", plain)
    return f"a {value}" if kind == "raises" else _literal(plain)


def _literal(plain: Json) -> str:
    """A plain value as Python writes it."""
    kind, value = cast("tuple[str, Json]", plain)
    match kind:
        case "int":
            return str(int(cast("str", value), 16))
        case "float":
            return repr(float.fromhex(cast("str", value)))
        case "list" | "tuple":
            inner = [_literal(one) for one in cast("list[Json]", value)]
            return f"[{', '.join(inner)}]" if kind == "list" else f"({''.join(one + ', ' for one in inner)})"
        case "dict":
            pairs = [f"{_literal(k)}: {_literal(v)}" for k, v in cast("list[tuple[Json, Json]]", value)]
            return f"{{{', '.join(pairs)}}}"
        case _:
            return repr(value)


def _history(package: str, files: Mapping[str, str]) -> tuple[Commit, ...]:
    """Three states; the bug is in the first that has the modules."""
    first = {path: text for path, text in files.items() if path in ("README.md", f"{package}/__init__.py")}
    second = {path: text for path, text in files.items() if not path.startswith("tests/")}
    return (
        Commit(message="Begin", files=first),
        Commit(message=f"Add the modules of {package}", files=second),
        Commit(message="Add tests", files=files),
    )
