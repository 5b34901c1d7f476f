"""`check`: every concern in order, and what nobody can check."""

from pathlib import Path

import duckdb

from rollwright.evidence.checking.calls import check_calls
from rollwright.evidence.checking.episodes import check_episodes
from rollwright.evidence.checking.files import check_files
from rollwright.evidence.checking.findings import CheckReport, Finding
from rollwright.evidence.checking.gradients import check_gradients
from rollwright.evidence.checking.keys import check_keys
from rollwright.evidence.checking.ledger import check_ledger
from rollwright.evidence.checking.loading import LoadedRun, load_run
from rollwright.evidence.checking.manifests import check_manifests
from rollwright.evidence.checking.numbers import check_evaluations, check_numbers
from rollwright.evidence.checking.rewards import check_rewards
from rollwright.evidence.retention import not_checked

__all__ = ["check", "check_loaded"]

_CONCERNS = (
    check_files,
    check_manifests,
    check_keys,
    check_episodes,
    check_calls,
    check_rewards,
    check_ledger,
    check_gradients,
    check_numbers,
    check_evaluations,
)


def check(path: Path) -> CheckReport:
    """Check a run folder: files against digests, and every row against the others.

    Args:
        path: a run folder.

    Returns:
        Findings (none: all that can be checked is right), and one sentence for each thing that the run's retention, or
        what is missing of it, leaves unchecked.

    Raises:
        EvidenceError: when there is no run, or its commits cannot be read.
    """
    with load_run(path) as run:
        return check_loaded(run)


def check_loaded(run: LoadedRun) -> CheckReport:
    """The same, of a run that was read already."""
    findings: list[Finding] = []
    hurt = _hurt(run)
    unread: list[str] = []
    for concern in _CONCERNS:
        try:
            findings += concern(run)
        except duckdb.Error as error:
            # What is altered may hold what no sum can be made of; the others are checked all the same.
            unread.append(f"{concern.__name__.removeprefix('check_')} were not read to the end: {_first_line(error)}.")
    unread += run.unread
    findings = [f for f in findings if f.concern == "files" or not _hangs_on(f, hurt)]
    if run.missing:
        unread.append(f"what the missing files of {', '.join(sorted(run.missing))} held, and all that hangs on it.")
    if run.tokens is None and run.rows("SELECT 1 FROM tool_calls LIMIT 1"):
        unread.append("whether tokens say what the calls and results say: the folder carries no tokenizer.")
    return CheckReport(
        findings=tuple(dict.fromkeys(findings)),
        not_checked=(*not_checked(run.folder.retention), *unread),
        num_commits=len(run.folder.commits),
        num_receipts=run.tables["receipts"].num_rows,
        num_trajectories=run.tables["trajectories"].num_rows,
    )


def _hurt(run: LoadedRun) -> frozenset[str]:
    """Words of places that hang on what the missing files held: trajectories, groups, steps and updates."""
    if not run.hurt_commits:
        return frozenset()
    numbers = run.hurt_commits
    found: set[str] = {f"commit {number}" for number in numbers}
    for table, columns in _NAMED.items():
        listed = ", ".join(columns.values())
        rows = run.rows(
            f"""SELECT DISTINCT {listed} FROM {table} t JOIN shard_rows s ON s.table_name = '{table}'
            AND t.place BETWEEN s.first_row AND s.first_row + s.num_rows - 1
            WHERE s.commit IN ({", ".join(map(str, numbers))})"""
        )
        found |= {f"{word}{value}" for row in rows for word, value in zip(columns, row, strict=True)}
    found |= {f"step {c.step}" for c in run.folder.commits if c.number in numbers}
    return frozenset(found)


def _hangs_on(finding: Finding, hurt: frozenset[str]) -> bool:
    """True where the place of a finding names something that lacks what it hangs on."""
    words = finding.place.replace("/", " ").split(" ")
    pairs = [f"{left} {right}" for left, right in zip(words, words[1:], strict=False)]
    first = [f"update {words[0]}"] if words[0].isdigit() else []
    return not hurt.isdisjoint((*words, *pairs, *first))


_NAMED = {
    "trajectories": {"": "t.trajectory_id", "group ": "t.group_id"},
    "segments": {"": "t.trajectory_id"},
    "receipts": {"": "t.trajectory_id", "update ": "t.update", "receipts ": "t.update", "step ": "t.step"},
    "ledger": {"": "t.trajectory_id", "group ": "t.group_id", "ledger ": "t.seq"},
    "metrics": {"update ": "t.update", "step ": "t.step"},
    "evaluations": {"evaluations ": "t.evaluation"},
}
"""Table to the words by which places name its rows."""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
