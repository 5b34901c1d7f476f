"""Find the marks of tests by reading their source: nothing is imported and nothing runs.

A mark counts for a test when it stands on the test, on its class, in a parameter of the test, in the module's
`pytestmark`, or in a module-level table that the test is parametrized with. Skipped and expected-to-fail tests
demonstrate nothing and do not count.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MarkError", "MarkedTest", "find_marked_tests"]

VOID_MARKS = frozenset({"skip", "xfail"})
TestFunction = ast.FunctionDef | ast.AsyncFunctionDef


class MarkError(ValueError):
    """A mark that cannot be read from the source, or names an id that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTest:
    """A test, the ids that it carries, and its source."""

    path: str
    """Relative to the project's root, with forward slashes."""
    name: str
    """As pytest writes it, without parameters: `test_f` or `TestC::test_f`."""
    ids: tuple[str, ...]
    source: str

    @property
    def node_id(self) -> str:
        """What pytest takes to run this test alone."""
        return f"{self.path}::{self.name}"


def find_marked_tests(root: Path, mark: str) -> list[MarkedTest]:
    """Every test under `root/tests` with `pytest.mark.<mark>("id", …)`, in order of path and line."""
    found: list[MarkedTest] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"mark.{mark}" in text:
            found += _marked_in_module(text, path.relative_to(root).as_posix(), mark)
    return found


def _marked_in_module(text: str, path: str, mark: str) -> list[MarkedTest]:
    module = ast.parse(text, filename=path)
    tables = {
        name: ids
        for statement in module.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for name in _assigned_names(statement)
        if (ids := _ids_under(statement, mark, path))
    }
    tests = [
        MarkedTest(path=path, name=name, ids=ids, source=_source(text, function))
        for name, function, owner in _tests_of(module)
        if not _is_void(function, owner) and (ids := _ids_of_test(function, owner, tables, mark, path))
    ]
    marked = {name for name in tables if name != "pytestmark"}
    named = {n.id for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if unused := sorted(marked - named):
        raise MarkError(f"{path}: the table {unused[0]} carries {mark} marks, but no test is parametrized with it")
    return tests


def _assigned_names(statement: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return (target.id for target in targets if isinstance(target, ast.Name))


def _tests_of(module: ast.Module) -> Iterator[tuple[str, TestFunction, ast.ClassDef | None]]:
    for node in module.body:
        if isinstance(node, TestFunction) and node.name.startswith("test"):
            yield node.name, node, None
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for member in node.body:
                if isinstance(member, TestFunction) and member.name.startswith("test"):
                    yield f"{node.name}::{member.name}", member, node


def _ids_of_test(
    function: TestFunction, owner: ast.ClassDef | None, tables: dict[str, list[str]], mark: str, path: str
) -> tuple[str, ...]:
    decorators = [*function.decorator_list, *(owner.decorator_list if owner else [])]
    ids = [i for decorator in decorators for i in _ids_under(decorator, mark, path)]
    names = {node.id for decorator in decorators for node in ast.walk(decorator) if isinstance(node, ast.Name)}
    for table, table_ids in tables.items():
        if table == "pytestmark" or table in names:
            ids += table_ids
    return tuple(dict.fromkeys(ids))


def _ids_under(node: ast.AST, mark: str, path: str) -> list[str]:
    """The ids of every `….mark.<mark>(…)` call in a piece of the tree."""
    ids: list[str] = []
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and _mark_name(call) == mark):
            continue
        for argument in call.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise MarkError(
                    f"{path}:{call.lineno}: write the ids of {mark} as plain strings; they are read, not run"
                )
            ids.append(argument.value)
    return ids


def _mark_name(node: ast.AST) -> str | None:
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute) and target.value.attr == "mark":
        return target.attr
    return None


def _is_void(function: TestFunction, owner: ast.ClassDef | None) -> bool:
    decorators = [*function.decorator_list, *(owner.decorator_list if owner else [])]
    return any(_mark_name(decorator) in VOID_MARKS for decorator in decorators)


def _source(text: str, function: TestFunction) -> str:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : function.end_lineno])
