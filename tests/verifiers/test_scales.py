"""Raw parts of rewards by source: their scale, and the one that stands out."""

import pytest

from rollwright.verifiers.scales import ComponentValue, component_scales, foreign_scales


def values(source: str, component: str, *numbers: float, weight: float = 1.0) -> list[ComponentValue]:
    return [ComponentValue(source=source, component=component, value=n, weight=weight) for n in numbers]


def test_mean_deviation_and_range_stand_by_part_and_source():
    scales = component_scales([*values("math", "exact", 0, 1, 1, 0), *values("code", "exact", 1, 1)])
    assert [(s.component, s.source, s.num, s.mean, s.std, s.low, s.high) for s in scales] == [
        ("exact", "code", 2, 1.0, 0.0, 1, 1),
        ("exact", "math", 4, 0.5, 0.5, 0, 1),
    ]


def test_a_part_on_another_scale_is_named_and_silence_is_no_scale():
    scales = component_scales(
        [
            *values("math", "exact", 0, 1),
            *values("code", "exact", 0, 100),
            *values("chat", "exact", 0, 1),
            *values("games", "exact", 0, 0),
            *values("math", "cost", -0.1, 0),
            *values("code", "cost", -0.3, 0),
        ]
    )
    assert [(s.component, s.source, s.size) for s in foreign_scales(scales)] == [("exact", "code", 100)]
    assert foreign_scales(component_scales([])) == ()


@pytest.mark.parametrize("first", [("a", "b"), ("b", "a")])
def test_of_two_sources_that_differ_both_are_named(first):
    scales = component_scales([*values(first[0], "exact", 1), *values(first[1], "exact", 50)])
    assert len(foreign_scales(scales)) == 2
