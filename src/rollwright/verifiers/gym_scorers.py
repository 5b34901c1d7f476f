"""The side of reasoning-gym that runs in a process of its own: draw problems, and score answers as the package does.

Some of its scorers evaluate the text of an answer as Python or hand it to sympy, which does the same. So for those an
answer is looked at first: only a literal, or an expression of numbers, letters and named functions, is handed on.
"""

import ast
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, cast

from rollwright.tasks import Json

__all__ = ["EVALUATED", "evaluates_to_no_harm", "open_scorers"]

EVALUATED: Mapping[str, Literal["literal", "expression"]] = {
    "binary_matrix": "literal",
    "n_queens": "literal",
    "spiral_matrix": "literal",
    "string_insertion": "literal",
    "countdown": "expression",
    "intermediate_integration": "expression",
    "polynomial_multiplication": "expression",
    "puzzle24": "expression",
    "simple_integration": "expression",
}
"""Generators whose scorers evaluate what they are given, and what may be evaluated there."""
_PLAIN = re.compile(r"[\w \t\n]*")
_MAX_EVALUATED = 2000
_TUPLE, _ITEMS = "$tuple", "$items"
_FUNCTIONS = frozenset(
    "sin cos tan sec csc cot asin acos atan asec acsc acot sinh cosh tanh exp log ln sqrt Abs pi".split()
)
_LITERAL = (ast.Expression, ast.Load, ast.List, ast.Tuple, ast.USub)
_EXPRESSION = (ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


class _Dataset(Protocol):
    def __getitem__(self, index: int) -> Mapping[str, object]: ...
    def score_answer(self, answer: str | None, entry: Mapping[str, object]) -> float: ...


class _Gym(Protocol):
    def create_dataset(self, name: str, **parameters: object) -> _Dataset: ...


def open_scorers(settings: Mapping[str, Json]) -> Callable[[Mapping[str, Json]], Json]:
    """The function that answers requests; imports reasoning-gym.

    A request is `{"draw": name, "parameters": {…}, "seed": …, "count": …}`, answered with entries, or
    `{"score": name, "parameters": {…}, "entry": {…}, "answer": …}`, answered with a number, or None where the answer
    may not be evaluated, or `{"names": true}`.
    """
    gym = cast("_Gym", importlib.import_module("reasoning_gym"))
    names = sorted(cast("Mapping[str, object]", importlib.import_module("reasoning_gym.factory").DATASETS))
    made: dict[str, _Dataset] = {}

    def scorer(name: str, parameters: Mapping[str, Json]) -> _Dataset:
        key = repr((name, sorted(parameters.items(), key=str)))
        if key not in made:
            made[key] = gym.create_dataset(name, seed=0, size=8, **parameters)
        return made[key]

    def answer(request: Mapping[str, Json]) -> Json:
        if "names" in request:
            return names
        parameters = cast("Mapping[str, Json]", request["parameters"])
        if "draw" in request:
            count = cast("int", request["count"])
            drawn = gym.create_dataset(str(request["draw"]), seed=request["seed"], size=count, **parameters)
            return [_to_json(dict(drawn[index])) for index in range(count)]
        name, given = str(request["score"]), str(request["answer"])
        entry = cast("Mapping[str, object]", _from_json(request["entry"]))
        if not all(evaluates_to_no_harm(one, given) for one in (name, _origin(entry))):
            return None
        return float(scorer(name, parameters).score_answer(given, entry))

    return answer


def evaluates_to_no_harm(generator: str, answer: str) -> bool:
    """Whether an answer may be given to the generator's scorer.

    Args:
        generator: its name; of one whose scorer evaluates nothing, every answer may.
        answer: as the policy wrote it.
    """
    kind = EVALUATED.get(generator)
    if kind is None:
        return True
    if len(answer) > _MAX_EVALUATED or "__" in answer:
        return generator == "n_queens" and _PLAIN.fullmatch(answer) is not None and len(answer) <= _MAX_EVALUATED
    if kind == "literal" and _PLAIN.fullmatch(answer):
        return True  # Names and digits without a bracket, a point or an operator call nothing.
    try:
        tree = ast.parse(answer.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_harmless(node, kind) for node in ast.walk(tree))


def _is_harmless(node: ast.AST, kind: Literal["literal", "expression"]) -> bool:
    if kind == "literal":
        is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
        return is_negative or isinstance(node, _LITERAL) or _is_constant(node, (int, float, str))
    if isinstance(node, ast.Name):
        return len(node.id) == 1 or node.id in _FUNCTIONS
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
    return isinstance(node, _EXPRESSION) or _is_constant(node, (int, float))


def _is_constant(node: ast.AST, kinds: tuple[type, ...]) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, kinds)


def _origin(entry: Mapping[str, object]) -> str:
    """The generator that an entry is of, where several are mixed."""
    metadata = cast("Mapping[str, object]", entry["metadata"])
    return str(metadata.get("source_dataset", ""))


def _to_json(value: object) -> Json:
    """JSON that says where a tuple stood and where the keys were no text: scorers compare with them."""
    match value:
        case tuple():
            return {_TUPLE: [_to_json(one) for one in cast("tuple[object, ...]", value)]}
        case list():
            return [_to_json(one) for one in cast("list[object]", value)]
        case dict():
            items = cast("dict[object, object]", value)
            if all(isinstance(key, str) for key in items):
                return {str(key): _to_json(one) for key, one in items.items()}
            return {_ITEMS: [[_to_json(key), _to_json(one)] for key, one in items.items()]}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return None  # Fractions and other working notes of a generator; a scorer that needs them fails at its gold.


def _from_json(value: Json) -> object:
    match value:
        case {"$tuple": [*several]}:
            return tuple(_from_json(one) for one in several)
        case {"$items": [*several]}:
            pairs = cast("list[tuple[Json, Json]]", several)
            return {_from_json(key): _from_json(one) for key, one in pairs}
        case Mapping():
            return {key: _from_json(one) for key, one in value.items()}
        case list():
            return [_from_json(one) for one in value]
        case _:
            return value
