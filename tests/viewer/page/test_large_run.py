"""A large run: valid as written, and a page of it reads few of its files."""

import shutil

import pytest

from rollwright.evidence import RunFolder, query
from tests.viewer.page.large_run import write_large_run
from tests.viewer.page.pages import Seen, client_of

STEPS = 12


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_large_run(tmp_path_factory.mktemp("runs") / "large", segments=3_000, steps=STEPS)


def test_it_is_a_run_with_keys_that_differ_and_a_ledger_that_goes_on(large):
    with RunFolder.open(large, "write") as folder:
        assert len(folder.commits) == STEPS + 1
        assert folder.commits[-1].last_seq + 1 == query(large, "SELECT count(*) FROM ledger").rows[0][0]
    for table, key in (
        ("segments", "(trajectory_id, segment)"),
        ("trajectories", "trajectory_id"),
        ("tool_calls", "call_id"),
        ("receipts", "(update, component, trajectory_id, segment)"),
        ("ledger", "seq"),
    ):
        [(rows, keys)] = query(large, f"SELECT count(*), count(DISTINCT {key}) FROM {table}").rows
        assert rows == keys, table
        assert isinstance(keys, int), table
        assert keys > 500, table
    assert query(large, "SELECT count(*) FROM slots WHERE state <> 'trained'").rows == ((0,),)
    assert query(large, "SELECT count(*) FROM receipts ANTI JOIN segments USING (trajectory_id, segment)").rows == (
        (0,),
    )


@pytest.fixture
def newest_only(large, tmp_path):
    """The run without the files of its older steps, so that a page which reads them fails."""
    path = tmp_path / "large"
    shutil.copytree(large, path)
    for table in ("trajectories", "segments", "tool_calls", "verdicts", "receipts", "ledger", "tasks", "metrics"):
        for number in range(2, STEPS - 2):
            (path / table / f"{number:06d}.parquet").unlink(missing_ok=True)
    return client_of([path])


@pytest.mark.parametrize(
    "page", ["", "/curves", "/steps", f"/step/{STEPS}", "/events", "/gates", "/manifest", "/live.json"]
)
def test_a_page_about_the_newest_reads_no_older_file(newest_only, page):
    assert newest_only.get(f"/r/large{page}").status_code == 200


def test_the_first_page_of_episodes_reads_the_newest_commits_alone_and_counts_all(newest_only, large):
    seen = Seen(newest_only.get("/r/large/episodes").text)
    total = query(large, "SELECT count(*) FROM trajectories").rows[0][0]
    assert f"of {total:,} episodes" in seen.text
    assert len([link for link in seen.links() if "/episode/" in link]) == 50


def test_a_page_that_needs_a_missing_file_says_so(newest_only):
    assert newest_only.get("/r/large/episodes?order=oldest&page=2").status_code == 503
