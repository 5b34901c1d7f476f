"""Runs that are killed at a random moment and resumed: the undisturbed run, or one whose account is whole.

A seed draws the moment, over the time that an undisturbed run takes; every third resume is killed as well. With a lag
the moment decides what is sampled under which weights, so that run is held to its account and to its own replay.
`make prove-kills` does all thirty of both kinds.
"""

import hashlib
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollwright.evidence import RunFolder, StoredRun, check, content_hash, table_hashes
from rollwright.evidence.shards import read_shard
from rollwright.recipes.drills.account import Account, Due, account_of
from rollwright.record.codec import decode_ledger
from rollwright.record.tables import LEDGER
from tests.end_to_end.children import start_command
from tests.end_to_end.proofs import Figures, Proofs
from tests.end_to_end.small import RECIPE, Ended, arguments, commits_of, rows

SEEDS = range(30)
WARM, STEPS = 2, 5
SETTINGS = (f"run.steps={STEPS}", f"evaluation.every={STEPS}", f"stages.warm_start.steps={WARM}")
COMMAND = "make prove-kills"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """A run that nothing disturbed."""

    path: Path
    words: Sequence[str]
    """Of the command line, but for the folder."""
    seconds: float
    """From the start of its process to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A run that was killed and resumed to its end."""

    path: Path
    whole_s: float
    """What an undisturbed run takes."""
    kills_s: Sequence[float]
    """After the start of its process."""
    commits: Sequence[int]
    """How many it held, killed."""
    ended: Ended


def words_with(lag: int) -> Sequence[str]:
    return ["train", RECIPE, "--json", *arguments(*SETTINGS, f"runtime.max_lag={lag}")]


def undisturbed(folder: Path, lag: int) -> Undisturbed:
    words = words_with(lag)
    # The first process of all is the one that imports; it is none of the run's time.
    assert start_command(["--version"], folder).ended().code == 0
    began = time.monotonic()
    ended = start_command([*words, "--run-dir", folder / "undisturbed"], folder).ended()
    assert ended.code == 0, ended.err
    return Undisturbed(path=folder / "undisturbed", words=words, seconds=time.monotonic() - began)


@pytest.fixture(scope="module")
def synchronous(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("kills"), 0)


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("kills"), 2)


def killed_and_resumed(like: Undisturbed, seed: int, folder: Path) -> Killed:
    """Kill a run at a moment that the seed draws, perhaps its resume too, and go on to the end."""
    chance = random.Random(seed)
    path = folder / "run"
    begin = [*like.words, "--run-dir", path]
    whole_s = like.seconds
    moments = [chance.uniform(0.0, whole_s)]
    while (took_s := killed_after(begin, folder, moments[0])) is not None:
        # It came to its end before: no kill, and the machine is faster than it was.
        path.rename(folder / f"missed-{took_s}")
        whole_s = took_s
        moments = [chance.uniform(0.0, whole_s)]
    commits = [len(commits_of(path))]
    if seed % 3 == 2:
        moment = chance.uniform(0.0, whole_s - moments[0])
        if killed_after(go_on(path, begin), folder, moment) is None:
            moments.append(moment)
            commits.append(len(commits_of(path)))
    ended = start_command(go_on(path, begin), folder).ended(timeout_s=300)
    assert ended.code == 0, ended.err or ended.out
    return Killed(
        path=path, whole_s=whole_s, kills_s=[round(moment, 3) for moment in moments], commits=commits, ended=ended
    )


def killed_after(words: Sequence[str | Path], folder: Path, after_s: float) -> float | None:
    """Kill a command so long after its start; where it ended before: how long it took."""
    began = time.monotonic()
    child = start_command(words, folder)
    child.wait_for(lambda: time.monotonic() >= began + after_s, timeout_s=after_s + 60)
    took_s = time.monotonic() - began
    child.kill()
    return None if child.ended().code == -signal.SIGKILL else took_s


def go_on(path: Path, begin: Sequence[str | Path]) -> Sequence[str | Path]:
    """Before there is a run to resume it is begun again, by the same words."""
    return ["resume", path, "--json"] if (path / "manifest.json").exists() else begin


def whole_account(path: Path, lag: int) -> Account:
    due = Due(group_size=4, batch_slots=16, max_lag=lag, rl_steps=STEPS)
    account = account_of(path, due)
    assert account.wrong == ()
    assert account.dispatched == account.sum
    assert account.by_state["trained"] == STEPS * 16
    assert StoredRun(path).steps == tuple(range(WARM + STEPS + 1))
    return account


def balances(path: Path) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Slots by state after each commit, from its rows and all before it."""
    folder = RunFolder.open(path)
    states: dict[tuple[int, int], str] = {}
    for commit in folder.commits:
        for shard in (shard for shard in commit.shards if shard.table == LEDGER.name):
            for row in decode_ledger(read_shard(folder.path, shard, LEDGER)):
                states[row.group_id, row.slot] = row.state
        yield commit.step, Counter(states.values())


def assert_balances_at_every_step(path: Path) -> None:
    said = rows(path, "SELECT step, labels['state'], value FROM metrics WHERE name = 'data/slots' AND value > 0")
    for step, states in balances(path):
        counted = {state: int(value) for at, state, value in said if at == step}
        assert counted == (states if step > WARM else {}), f"step {step}"


def weights_of(path: Path) -> str:
    newest = RunFolder.open(path).newest_checkpoint().chosen
    assert newest is not None and newest.step == WARM + STEPS
    return hashlib.sha256((newest.path / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.training
@pytest.mark.row("S279")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_run_is_the_undisturbed_one(
    seed: int, synchronous: Undisturbed, tmp_path: Path, proofs: Proofs
) -> None:
    command = f"{COMMAND}: lag 0"
    figures = proofs.recorded(command, [seed])
    if figures is None:
        run = killed_and_resumed(synchronous, seed, tmp_path)
        assert table_hashes(run.path) == table_hashes(synchronous.path), f"killed after {run.kills_s} seconds"
        assert run.ended.last["content_hash"] == content_hash(synchronous.path)
        assert weights_of(run.path) == weights_of(synchronous.path)
        account = whole_account(run.path, 0)
        assert_balances_at_every_step(run.path)
        figures = figures_of(run, account)
        proofs.record(command, [seed], figures)
    assert figures["kills_s"]


@pytest.mark.training
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_asynchronous_run_has_a_whole_account_and_replays_to_its_own_weights(
    seed: int, asynchronous: Undisturbed, tmp_path: Path, proofs: Proofs
) -> None:
    command = f"{COMMAND}: lag 2"
    figures = proofs.recorded(command, [seed])
    if figures is None:
        run = killed_and_resumed(asynchronous, seed, tmp_path)
        account = whole_account(run.path, 2)
        assert_balances_at_every_step(run.path)
        assert_replays(run.path, tmp_path)
        figures = figures_of(run, account)
        proofs.record(command, [seed], figures)
    assert figures["kills_s"]


@pytest.mark.training
def test_groups_that_a_kill_finds_open_are_dispatched_again_and_the_run_replays(tmp_path: Path) -> None:
    path = tmp_path / "run"
    child = start_command([*words_with(2), "--run-dir", path], tmp_path)
    assert child.wait_for(lambda: (path / "checkpoints" / f"step-{WARM + 2:06d}").exists())
    child.kill()
    ended = start_command(["resume", path, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    assert whole_account(path, 2).by_state["requeued"] > 0
    assert_balances_at_every_step(path)
    assert check(path).findings == ()
    assert_replays(path, tmp_path)


def assert_replays(path: Path, folder: Path) -> None:
    ended = start_command(["replay", path, "--json", "--run-dir", folder / "again"], folder).ended(timeout_s=300)
    assert ended.code == 0, ended.err or ended.out
    assert ended.last["is_equal"]
    assert weights_of(path) == weights_of(folder / "again")


def figures_of(run: Killed, account: Account) -> Figures:
    return {
        "kills_s": run.kills_s,
        "undisturbed_s": round(run.whole_s, 3),
        "commits": run.commits,
        "account": str(account),
        "weights_sha256": weights_of(run.path),
    }
