"""The deficit mixer (M103)."""

import heapq
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.sampling.deficit_mixer import DeficitMixer, shares


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_one_at_a_time_the_mix_is_never_a_group_per_source_off(parts):
    targets = {str(i): part / sum(parts) for i, part in enumerate(parts)}
    mixer = DeficitMixer(targets)
    accepted = Counter()
    for total in range(1, 60):
        source = mixer.next_source()
        mixer.accept(source)
        accepted[source] += 1
        assert sum(mixer.deficits.values()) == pytest.approx(0, abs=1e-9)
        for name, share in targets.items():
            assert mixer.deficits[name] == pytest.approx(share * total - accepted[name])
            assert abs(mixer.deficits[name]) <= len(parts)


def test_a_slow_source_keeps_its_share_where_first_finished_would_lose_it():
    """Two places each second; slow groups take three seconds, fast ones one, and the mix is to be even."""
    seconds = {"fast": 1, "slow": 3}

    def run(choose):
        flying, accepted, clock, number = [], Counter(), 0, 0
        for _ in range(400):
            while len(flying) < 4:
                source = choose(Counter(name for _, _, name in flying), number)
                heapq.heappush(flying, (clock + seconds[source], number, source))
                number += 1
            clock, _, source = heapq.heappop(flying)
            accepted[source] += 1
            mixer.accept(source)
        return shares(accepted)

    mixer = DeficitMixer({"fast": 0.5, "slow": 0.5})
    by_deficit = run(lambda running, _: mixer.next_source(running=running))
    assert by_deficit["slow"] == pytest.approx(0.5, abs=0.05)
    mixer = DeficitMixer({"fast": 0.5, "slow": 0.5})
    by_place = run(lambda running, _: "fast" if running["fast"] < 2 else "slow")
    assert by_place["slow"] == pytest.approx(0.25, abs=0.02)


def test_an_empty_source_is_passed_over_and_its_debt_stands_still():
    mixer = DeficitMixer({"a": 0.5, "b": 0.25, "c": 0.25})
    mixer.accept("b", 4)
    assert mixer.deficits == {"a": 2, "b": -3, "c": 1}
    assert mixer.next_source(empty={"a"}) == "c"
    mixer.accept("c", 3, empty={"a"})
    assert mixer.deficits == {"a": 2, "b": -1.5, "c": -0.5}
    assert mixer.next_source() == "a"
    resumed = DeficitMixer({"a": 0.5, "b": 0.25, "c": 0.25})
    resumed.restore(mixer.state())
    assert resumed.deficits == mixer.deficits


def test_what_cannot_be_mixed_is_refused():
    with pytest.raises(ObjectiveError, match="sum to 1"):
        DeficitMixer({"a": 0.5, "b": 0.6})
    with pytest.raises(ObjectiveError, match="above 0"):
        DeficitMixer({"a": 1.0, "b": 0.0})
    mixer = DeficitMixer({"a": 1.0})
    with pytest.raises(ObjectiveError, match="source b has no target"):
        mixer.accept("b")
    with pytest.raises(ObjectiveError, match="every source"):
        mixer.next_source(empty={"a"})
    with pytest.raises(ObjectiveError, match="the state knows"):
        mixer.restore({"b": 0.0})
    assert shares({"a": 0, "b": 0}) == {"a": 0, "b": 0}
