"""The reference gives the expected numbers of the fixtures, and a wrong number shows."""

import copy

import pytest

from tests.cases import method_fixture, method_fixtures
from tools.golden import differences
from tools.reference import REFERENCES


def as_mapping(fixture):
    names = ("id", "method", "input", "expect", "tol")
    return {name: copy.deepcopy(getattr(fixture, name)) for name in names}


@pytest.mark.parametrize("method", sorted(REFERENCES))
def test_the_reference_agrees_with_every_fixture_of_its_method(method):
    assert [line for fixture in method_fixtures(method) for line in differences(as_mapping(fixture))] == []


def test_a_wrong_number_is_named():
    wrong = as_mapping(method_fixture("M72.a"))
    wrong["expect"]["row_mass"][1] = 0.6
    (line,) = differences(wrong)
    assert line.startswith("M72.a row_mass")
