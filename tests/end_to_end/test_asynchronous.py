"""A run that samples while it learns, with everything on that decides what is dispatched and kept: sound to the end."""

from collections import Counter
from pathlib import Path

import pytest

from rollwright.evidence import check
from tests.end_to_end.small import rows, small_rl, trained

SETTINGS = (
    "run.steps=5",
    "runtime.max_lag=2",
    "runtime.oversample=2",
    "runtime.stragglers=park",
    "runtime.mixture=deficit",
    "rollout.dynamic_sampling=true",
    "rollout.max_extra_groups=2",
    "evaluation.tasks=2",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("asynchronous") / "run", small_rl(*SETTINGS))


def test_every_token_is_trained_once_by_the_rules_and_the_record_says_so(run: Path) -> None:
    assert check(run).is_sound
    ((lag,),) = rows(run, "SELECT max(lag) FROM receipts")
    assert 1 <= lag <= 2
    counted = "SELECT count(*) FROM slots WHERE state = 'trained'"
    assert rows(run, counted) == ((5 * 16,),)
    assert rows(run, f"{counted} AND trajectory_id NOT IN (SELECT trajectory_id FROM trajectories)") == ((0,),)


def test_each_dispatched_slot_is_in_one_state_and_the_last_row_says_which(run: Path) -> None:
    states = Counter(dict(rows(run, "SELECT state, count(*) FROM slots GROUP BY ALL")))
    counted = dict(rows(run, "SELECT labels['state'], value FROM metrics WHERE name = 'data/slots' AND step = 5"))
    assert states == Counter({state: int(count) for state, count in counted.items()})
    ((unlinked,),) = rows(
        run,
        "SELECT count(*) FROM slots s LEFT JOIN slots n ON n.group_id = s.successor AND n.slot = s.slot "
        "WHERE s.state = 'requeued' AND n.task_id IS DISTINCT FROM s.task_id",
    )
    assert unlinked == 0


def test_what_is_owed_to_each_source_is_counted_by_what_was_trained(run: Path) -> None:
    accepted = rows(run, "SELECT step, sum(value) FROM metrics WHERE name = 'data/accepted' GROUP BY ALL ORDER BY 1")
    assert accepted == tuple((step, 4.0) for step in range(1, 6))
    assert rows(run, "SELECT sum(value) FROM metrics WHERE name = 'sys/duplicates_refused'") == ((0.0,),)
