"""Where the time of a run went: the states of each part add up to the time of a step; what is left has its own line."""

import pytest

from rollwright.evidence import connect
from rollwright.runtime.timebook import PARTS
from tests.end_to_end.conftest import Finished


def test_the_states_of_each_part_add_up_to_the_time_of_each_step(finished: Finished) -> None:
    with connect(finished.path) as connection:
        rows = connection.execute(
            "SELECT step, name, labels['part'], labels['state'], value FROM metrics "
            "WHERE name IN ('time/part', 'time/wall', 'time/unattributed')"
        ).fetchall()
    walls = {step: value for step, name, _, _, value in rows if name == "time/wall"}
    assert sorted(walls) == [1, 2, 3, 4, 5, 6]
    for step, wall in walls.items():
        for part in PARTS:
            states = {state: s for at, _, of, state, s in rows if (at, of) == (step, part)}
            assert set(states) <= {"busy", "syncing", "starved", "blocked"}
            assert sum(states.values()) == pytest.approx(wall, rel=0.01)
    unattributed = {step: value for step, name, _, _, value in rows if name == "time/unattributed"}
    assert unattributed.keys() == walls.keys()
    assert all(0 <= unattributed[step] <= walls[step] for step in walls)
    assert {of for _, name, of, state, _ in rows if name == "time/part" and state == "busy"} >= {
        "engine",
        "environment",
        "verifiers",
        "learner",
        "loop",
    }
