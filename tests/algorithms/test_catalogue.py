"""The catalogue names every method once, and what it names is there."""

import importlib
import inspect
import re
from collections import Counter
from dataclasses import fields, is_dataclass

import pytest

from rollwright import algorithms
from rollwright.algorithms import Credit, imitate
from rollwright.algorithms.catalogue import FAMILIES, METHODS, PARTS, method_of, part_of
from rollwright.algorithms.masking import LOGPROB_STREAMS
from rollwright.recipes.fixtures.families import load_adapters
from rollwright.recipes.fixtures.reading import shipped_fixtures

IDS = [f"M{number:02}" for number in range(1, 136)]


def resolved(where: str) -> object:
    module, _, name = where.partition(":")
    found: object = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


def arguments_of(make) -> set[str]:
    if inspect.isfunction(make):
        return {p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY}
    if is_dataclass(make):
        return {one.name for one in fields(make) if one.init}
    return set(inspect.signature(make).parameters)


def test_each_method_is_there_exactly_once():
    assert [method.id for method in METHODS] == IDS


def test_each_method_says_what_it_is():
    for method in METHODS:
        assert method.family in FAMILIES, method.id
        assert method.name and method.formula and method.source and method.where, method.id
        assert "\n" not in method.formula, method.id
        assert method_of(method.id) is method


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.id)
def test_where_a_method_is_carried_out_is_a_real_name(method):
    for where in method.where:
        assert re.fullmatch(r"rollwright(\.\w+)+(:\w+(\.\w+)*)?", where), where
        assert resolved(where) is not None


def test_each_part_belongs_to_a_method():
    assert {part.method for part in PARTS if part.method} <= set(IDS)
    assert all(callable(part.make) for part in PARTS)


def test_a_function_or_class_is_one_part_in_a_role():
    twice = [key for key, count in Counter((part.make, part.role) for part in PARTS).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.role}-{part.make.__name__}")
def test_a_formula_asks_for_arguments_that_the_part_has(part):
    asked = set(re.findall(r"\{(\w+)\}", part.formula.replace("{{", "").replace("}}", "")))
    assert asked <= arguments_of(part.make)
    assert {one.argument for one in part.facts_when} <= arguments_of(part.make)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.role}-{part.make.__name__}")
def test_a_constant_that_nobody_disclosed_is_an_argument_without_a_number(part):
    """It is None where it is left out, so that `chosen` can say who kept it."""
    method = method_of(part.method)
    if method is None:
        return
    for name in method.undisclosed.keys() & arguments_of(part.make):
        default = inspect.signature(part.make).parameters[name].default
        assert default in (None, inspect.Parameter.empty), f"{part.make.__name__}.{name}"


def test_a_part_is_found_by_what_made_it():
    for part in PARTS:
        assert part_of(part.make, part.role) is part
    assert part_of(resolved, None) is None


def test_each_method_of_a_fixture_has_an_adapter_that_knows_its_inputs():
    adapters = load_adapters()
    assert list(adapters) == IDS
    for fixture in shipped_fixtures():
        assert set(fixture.given) <= {one.name for one in adapters[fixture.method].inputs}, fixture.id


def test_each_method_has_a_worked_number():
    assert [one for one in IDS if one not in {fixture.method for fixture in shipped_fixtures()}] == []


def test_what_gives_credit_is_a_part():
    """But for supervised learning, which is no method of the catalogue."""
    functions = [one for name in algorithms.__all__ if inspect.isfunction(one := getattr(algorithms, name))]
    crediting = {one for one in functions if one.__annotations__.get("return") is Credit} - {imitate}
    assert len(crediting) > 30
    assert {one.__name__ for one in crediting if part_of(one, None) is None} == set()


def test_each_part_has_its_name_in_the_library():
    assert {part.make.__name__ for part in PARTS} - set(algorithms.__all__) == set()


def test_what_adapters_ask_for_is_said_in_words():
    for method, adapter in load_adapters().items():
        names = [one.name for one in adapter.inputs]
        assert len(set(names)) == len(names), method
        assert all(one.meaning and one.default != "" for one in adapter.inputs), method


def test_streams_of_the_trial_are_those_of_the_table():
    """A stream that `streams.py` adds is offered to credits that are tried."""
    from rollwright.algorithms import streams
    from rollwright.algorithms.trial import trial_inputs

    rows = re.findall(r"^\| ([\w, /<>]+) \| (logprobs|values|keys) \|", streams.__doc__ or "", re.MULTILINE)
    named = {kind: {n.strip() for names, k in rows if k == kind for n in names.split(",")} for _, kind in rows}
    inputs = trial_inputs(2, parts=("<name>",))
    assert named == {
        "logprobs": set(inputs.logprobs),
        "values": set(inputs.values),
        "keys": set(inputs.keys),
    }
    assert set(LOGPROB_STREAMS) - {"current"} <= set(inputs.logprobs)
