"""Repair of a repository: how it is laid, what tools do in it, what is left, and who is paid."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from typing import Any

import pytest

from rollwright.environments import REPOSITORY_TREE, git_folder
from rollwright.recipes.worlds import null_agent
from rollwright.recipes.worlds.repository import load
from rollwright.record import ScoredTrajectory, Submission
from rollwright.record.codec import encode_trajectories
from rollwright.tasks import Commit, SplitSizes, repository_of, repository_row
from rollwright.verifiers import REPOSITORY_PATCH, Composition
from tests.environments.played import play, said, turn


@pytest.fixture(scope="module")
def world():
    world = load(call_s=20.0)
    yield world
    world.close()


@pytest.fixture(scope="module")
def tasks(world):
    return [task for stratum in world.tasks(SplitSizes(train=8, held_out=0), 0) for task in stratum.train]


def scored(world, submission):
    (score,) = asyncio.run(Composition(world.parts).score([submission]))
    return score


def reward(world, played):
    return scored(world, played.submission).outcome


# ----------------------------------------------------------------------------------------------------------- the agents


@pytest.mark.row("S446")
def test_the_reference_is_paid_in_every_kind_of_package_and_again_after_a_reset(world, tasks, renderer):
    for task in tasks[::2]:
        first, again = (play(renderer, world.environment, task, world.reference(task, 0)) for _ in range(2))
        assert [status for status, _ in first.results] == ["ok", "ok", "ok"]
        assert first.results == again.results
        assert first.trajectory.initial_state_hash == again.trajectory.initial_state_hash
        assert first.submission.artifacts == again.submission.artifacts
        assert reward(world, first) == 1.0


def test_the_null_agent_earns_nothing(world, tasks, renderer):
    played = play(renderer, world.environment, tasks[0], null_agent(tasks[0], 0))
    assert played.submission.artifacts == {}
    assert reward(world, played) == 0.0


@pytest.mark.parametrize("number", range(10))
def test_no_attack_is_paid(world, tasks, renderer, number):
    name, agent = sorted(world.attacks.items())[number]
    task = tasks[number % len(tasks)]
    assert reward(world, play(renderer, world.environment, task, agent(task, 0))) == 0.0, name


def test_there_are_ten_attacks(world):
    assert len(world.attacks) == 10


def test_a_repair_of_the_shown_example_alone_is_not_paid(world, tasks, renderer):
    repository = repository_of(tasks[0])
    module = repository.fix.path
    tests = [
        test for test in repository.fail_to_pass if test.function.split(":")[0].replace(".", "/") + ".py" == module
    ]
    name = tests[0].function.split(":")[1]
    source = repository.files[module] + f"\n\n_old = {name}\n\ndef {name}(*given):\n    return _old(*given) or 1\n"
    played = play(renderer, world.environment, tasks[0], [turn("write_file", path=module, text=source), said("done")])
    assert reward(world, played) == 0.0


# ------------------------------------------------------------------------------------------------------------ the tools


def test_every_tool_says_what_it_did_and_what_went_wrong(world, tasks, renderer):
    repository = repository_of(tasks[0])
    fix = repository.fix
    turns = [
        turn("shell", command="ls; exit 3"),
        turn("read_file", path=fix.path),
        turn("read_file", path="no/such/file"),
        turn("edit_file", path=fix.path, old="no such text", new=""),
        turn("run_tests"),
        turn("edit_file", path=fix.path, old=fix.old, new=fix.new),
        turn("write_file", path="notes/deep/n.txt", text="läßt\n"),
        turn("run_tests"),
        said("done"),
    ]
    played = play(renderer, world.environment, tasks[0], turns)
    listed, source, missing, no_edit, failing, edited, written, passing = played.results
    assert listed == ("tool_error", f"README.md\n{repository.package}\ntests\nerror: exit code 3")
    assert source == ("ok", repository.files[fix.path].strip("\n"))
    assert missing[0] == "tool_error" and "FileNotFoundError" in missing[1]
    assert no_edit == ("tool_error", "error: the old text stands 0 times in the file; it must stand there once")
    assert failing[0] == "tool_error" and "FAILED" in failing[1] and "4 of 5 tests pass" in failing[1]
    assert (edited, written, passing) == (("ok", "edited"), ("ok", "written"), ("ok", "5 of 5 tests pass"))
    tree = json.loads(played.submission.artifacts[REPOSITORY_TREE])
    assert tree["files"] == {**repository.fixed, "notes/deep/n.txt": "läßt\n"}


def test_paths_of_a_policy_break_nothing(world, tasks, renderer):
    turns = [
        turn("write_file", path="/etc/passwd", text="x"),
        turn("write_file", path="tests", text="x"),
        turn(
            "shell",
            command="ln -s /etc/passwd link; mkfifo pipe; printf '\\377' > bytes; head -c 300000 /dev/zero > big",
        ),
        turn("write_file", path="link", text="x"),
        turn("read_file", path="nul\0"),
        turn("write_file", path="../../up", text="x"),
        said("done"),
    ]
    played = play(renderer, world.environment, tasks[0], turns)
    assert {status for status, _ in played.results} <= {"ok", "tool_error"}
    tree = json.loads(played.submission.artifacts[REPOSITORY_TREE])
    assert {"link", "pipe"}.isdisjoint(tree["files"])
    assert tree["left_out"] == ["big", "bytes"]


# ---------------------------------------------------------------------------------------------- the past and the hidden


@pytest.mark.case("F108")
def test_nothing_of_the_solution_can_be_found_from_inside(world, tasks, renderer):
    task = tasks[0]
    repository = repository_of(task)
    wanted = repository.fix.new.strip().replace("'", "'\"'\"'")
    hidden = repository.fail_to_pass[0].test_id
    commands = {
        "git log --all --format=%s": "Add tests\nAdd the modules",
        "git tag; git reflog; git stash list; git branch -a --format='%(refname:short)'": "main",
        "git fsck --lost-found 2>&1 | grep dangling; ls .git/objects/pack .git/logs 2>/dev/null": "",
        f"git log --all -p | grep -F -- '{wanted}'": "error",
        f"git cat-file --batch-all-objects --batch | grep -a -F -- '{wanted}'": "error",
        f"grep -r -F -- '{wanted}' /work /tmp /home /root /etc /var /run /opt -s | head -3": "",
        f"grep -r -F -- '{hidden}' /work /tmp /home -s | head -3; env": "PATH|PWD|HOME|LANG",
        "find / -xdev -name '__pycache__' -path '/work/*'; ls -a /work | grep cache": "error",
        "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n' | grep -i -E 'key|token|secret|hidden'": "",
        "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 1)\"": "error",
        "echo x > /etc/x; echo x > /usr/x; ls /etc/x /usr/x": "error",
    }
    turns = [turn("shell", command=command) for command in commands]
    played = play(renderer, world.environment, task, [*turns, said("done")])
    for (command, expected), (_, text) in zip(commands.items(), played.results, strict=True):
        assert wanted not in text and hidden not in text, command
        assert expected == "" or any(part in text for part in expected.split("|")), (command, text)
    assert "Add tests" in played.results[0][1], "git is there, and shows the past alone"
    assert reward(world, played) == 0.0


@pytest.fixture
def listener():
    """A server of this machine that gives the solution to whoever asks."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.row("S411")
def test_no_leak_that_is_planted_around_the_sandbox_is_reached_from_inside(renderer, tmp_path, monkeypatch, listener):
    secret = "the_planted_solution"
    for name in ("test.log", "cache/pytest/lastfailed", "__pycache__/fixed.cpython-311.pyc", "future/.git/packed-refs"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(secret, encoding="utf-8")
        (tmp_path / name).chmod(0o644)
    monkeypatch.setenv("PLANTED", secret)
    world = load(call_s=20.0, num_warm=0)
    try:
        (task,) = next(iter(world.tasks(SplitSizes(train=4, held_out=0), 0))).train
        ask = f"import socket; print(socket.create_connection(('127.0.0.1', {listener}), 1).recv(99))"
        commands = [
            *(f"cat {tmp_path / name}" for name in ("test.log", "cache/pytest/lastfailed")),
            f"cat {tmp_path}/__pycache__/*",
            f"git --git-dir {tmp_path}/future/.git log --all",
            f"git fetch {tmp_path}/future",
            f"ls {tmp_path} {tmp_path.parent}",
            f"cat /proc/{os.getpid()}/environ",
            'test -n "$PLANTED"',
            f'python3 -c "{ask}"',
        ]
        turns = [turn("shell", command=command) for command in commands]
        played = play(renderer, world.environment, task, [*turns, said("Done.")])
        for command, (status, text) in zip(commands, played.results, strict=True):
            assert status == "tool_error" and secret not in text, (command, text)
    finally:
        world.close()


def test_the_folder_of_git_is_whole_and_holds_the_given_states_alone(tmp_path):
    if shutil.which("git") is None:
        return
    history = (
        Commit(message="One", files={"a.txt": "1\n", "p/q/b.txt": "2\n"}),
        Commit(message="Two", files={"a.txt": "1\n", "p.txt": "3\n", "p/q/b.txt": "4\n", "p-q": ""}),
    )
    laid = {**{path: text.encode() for path, text in history[-1].files.items()}, **git_folder(history)}
    for path, data in laid.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    def git(*arguments):
        return subprocess.run(
            ["git", "-c", "safe.directory=*", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert git("status", "--short") == ""
    assert git("fsck", "--full", "--strict") == ""
    assert git("log", "--all", "--format=%s").split() == ["Two", "One"]
    assert git("show", "HEAD~1:p/q/b.txt") == "2\n"
    assert git("reflog") == git("tag") == git("stash", "list") == ""
    assert git_folder(history) == git_folder(history)


# ---------------------------------------------------------------------------------------------------- patches as repair


def patched(task, patch):
    return Submission(
        trajectory_id="t000001-00-0",
        task=task,
        terminal_reason="model_end",
        passages=(),
        artifacts={REPOSITORY_PATCH: patch.encode()},
    )


@pytest.mark.row("S444")
def test_a_patch_is_applied_and_scored_by_both_kinds_of_tests(world, tasks):
    patch = str(repository_row(tasks[0])["patch"])
    right = scored(world, patched(tasks[0], patch))
    assert right.outcome == 1.0
    assert [(c.name, c.value) for c in right.verdicts[0].components] == [("fail_to_pass", 1.0), ("pass_to_pass", 1.0)]
    none = scored(world, patched(tasks[0], ""))
    assert none.outcome == 0.0
    assert [c.value for c in none.verdicts[0].components] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("patch", "finding"),
    [
        ("--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n", "bad_patch"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "bad_patch"),
    ],
)
def test_a_patch_that_does_not_fit_is_the_policys_doing(world, tasks, patch, finding):
    score = scored(world, patched(tasks[0], patch))
    assert (score.outcome, score.verdicts[0].finding) == (0.0, finding)


def test_a_repair_that_hangs_or_eats_memory_is_the_policys_doing(tasks):
    world = load(call_s=0.7)
    try:
        for code, finding in (("while True: pass\n", "program_timeout"), ("x = 'x' * 2**33\n", None)):
            repository = repository_of(tasks[0])
            files = {**repository.files, repository.fix.path: code}
            tree = json.dumps({"files": files, "left_out": []}).encode()
            submission = Submission(
                trajectory_id="t000001-00-0",
                task=tasks[0],
                terminal_reason="model_end",
                passages=(),
                artifacts={REPOSITORY_TREE: tree},
            )
            score = scored(world, submission)
            assert score.outcome == 0.0
            assert finding is None or score.verdicts[0].finding == finding
    finally:
        world.close()


@pytest.mark.row("S445")
def test_the_tokens_of_each_task_stand_in_the_record_beside_its_score(world, tasks, renderer):
    played = [(task, play(renderer, world.environment, task, world.reference(task, 0))) for task in tasks[:2] * 2]
    members = []
    for _, one in played:
        score = scored(world, one.submission)
        members.append(
            ScoredTrajectory(
                trajectory=one.trajectory, verdicts=score.verdicts, outcome=score.outcome,
                reward_rule=score.reward_rule, reward_components=score.reward_components, verifying_s=0.0,
            )
        )  # fmt: skip
    rows: list[dict[str, Any]] = encode_trajectories(members).tables["trajectories"].to_pylist()
    tokens: dict[str, list[int]] = {}
    for row in rows:
        tokens.setdefault(row["task_id"], []).append(row["num_action_tokens"])
    written = {
        task.task_id: sum(
            len(renderer.encode_turn(t.text, [(c.tool, c.arguments) for c in t.calls]))
            for t in world.reference(task, 0)
        )
        for task in tasks[:2]
    }
    assert tokens == {task_id: [count, count] for task_id, count in written.items()}
    assert {row["reward"] for row in rows} == {1.0}
