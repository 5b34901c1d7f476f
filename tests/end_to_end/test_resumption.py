"""A run that parks what its limits cut and goes on with it: recorded whole, trained once, the same run again."""

from pathlib import Path

import pytest

from rollwright.evidence import check, table_hashes
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.children import start_command
from tests.end_to_end.small import RECIPE, Listener, arguments, rows, small, small_rl, trained

SETTINGS = (
    "stages.warm_start.steps=1",
    "rollout.truncation=resume",
    "rollout.max_resumptions=2",
    "rollout.max_episode_tokens=12",
    "rollout.max_turn_tokens=12",
    "evaluation.tasks=2",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("resumption") / "run", small(*SETTINGS))


def test_what_is_parked_is_recorded_whole_and_its_tokens_are_trained_once_in_the_attempt_that_ends(run: Path) -> None:
    parked = rows(
        run,
        "SELECT p.terminal_reason, p.unscored_reason, t.lineage, count(*) FROM trajectories t "
        "JOIN trajectories p ON p.trajectory_id = t.parent_trajectory_id WHERE t.purpose = 'train' GROUP BY ALL",
    )
    ((reason, unscored, lineage, count),) = parked
    assert (reason, unscored, lineage) == ("superseded", "superseded", "resumed_from") and count > 10
    assert rows(run, "SELECT count(*) FROM trajectories WHERE terminal_reason = 'superseded'") == ((count,),)
    # The prefix of each further attempt is what was parked, token by token, with its numbers.
    drawn = (
        "SELECT trajectory_id, context, unnest(range(start, start + num_tokens)) AS place, unnest(token_ids) AS token, "
        "unnest(behavior_logprobs) AS score, policy_version FROM segments WHERE origin = 'policy'"
    )
    ((lost, kept),) = rows(
        run,
        f"WITH d AS ({drawn}) SELECT count(*) FILTER (n.token IS NULL), count(n.token) FROM d "
        "JOIN trajectories t ON t.parent_trajectory_id = d.trajectory_id AND t.lineage = 'resumed_from' "
        "LEFT JOIN d n ON n.trajectory_id = t.trajectory_id AND n.context = d.context AND n.place = d.place "
        "AND n.token = d.token AND n.score = d.score AND n.policy_version = d.policy_version",
    )
    assert (
        lost == 0 and kept == count * 12 + rows(run, "SELECT count(*) FROM trajectories WHERE attempt = 2")[0][0] * 12
    )
    assert rows(
        run,
        "SELECT count(*) FROM receipts JOIN trajectories USING (trajectory_id) WHERE terminal_reason = 'superseded'",
    ) == ((0,),)


def test_every_slot_ends_once_and_the_last_limit_is_negative(run: Path) -> None:
    assert check(run).is_sound
    assert rows(run, "SELECT state, count(*) FROM slots GROUP BY ALL") == (("trained", 32),)
    ends = dict(rows(run, "SELECT terminal_reason, max(num_action_tokens) FROM trajectories GROUP BY ALL"))
    assert ends["token_limit"] == 36 and ends["superseded"] == 24
    ((paid,),) = rows(
        run,
        "SELECT max(r.advantage.v[1]) FROM receipts r JOIN trajectories t USING (trajectory_id) "
        "WHERE t.terminal_reason = 'token_limit' AND component = 'policy_gradient'",
    )
    assert paid <= 0


def test_the_run_is_the_same_again_and_after_a_kill(run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    child = start_command(["train", RECIPE, "--json", "--run-dir", again, *arguments(*SETTINGS)], tmp_path)
    assert child.wait_for(lambda: any((again / "commits").glob("000002*")))
    child.kill()
    ended = start_command(["resume", again, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    assert table_hashes(again) == table_hashes(run)


def test_with_the_same_weights_a_resumed_episode_has_the_tokens_of_the_uncut_one(tmp_path: Path) -> None:
    """The engine itself: its cache is made anew behind what was parked, so that scores differ in their last bits."""

    def drawn(name: str, *settings: str) -> dict[tuple[int, int], tuple[list[int], list[float]]]:
        path = tmp_path / name
        order = TrainOrder(resolved=small_rl(*settings), run_dir=path, source=None, is_rollouts_only=True)
        train_run(order, Listener())
        found = rows(
            path,
            "SELECT group_id, slot, flatten(list(token_ids ORDER BY segment)), "
            "flatten(list(behavior_logprobs ORDER BY segment)) FROM segments JOIN trajectories USING (trajectory_id) "
            "WHERE origin = 'policy' AND terminal_reason <> 'superseded' GROUP BY ALL",
        )
        return {(group, slot): (tokens, scores) for group, slot, tokens, scores in found}

    uncut = drawn("uncut", "rollout.max_episode_tokens=36", "rollout.max_turn_tokens=36")
    resumed = drawn("resumed", *SETTINGS[1:5])
    assert {key: tokens for key, (tokens, _) in resumed.items()} == {key: tokens for key, (tokens, _) in uncut.items()}
    assert max(len(tokens) for tokens, _ in resumed.values()) == 36
    for key, (_, scores) in resumed.items():
        assert scores == pytest.approx(uncut[key][1], abs=1e-4)
