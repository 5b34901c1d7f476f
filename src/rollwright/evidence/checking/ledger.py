"""The account of dispatched slots: each in one state, through legal ones, balanced at every step."""

from collections.abc import Iterator

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions

__all__ = ["check_ledger"]

_NEXT = {
    "in_flight": ("in_flight", "ready", "failed", "requeued"),
    "ready": ("trained", "filtered", "expired", "requeued"),
    "failed": ("filtered", "requeued"),
}
"""From a state to what may follow it; the others are final."""


def check_ledger(run: LoadedRun) -> Iterator[Finding]:
    """Every slot goes its way once, and what it came to is what the other tables hold."""
    if "ledger" in run.missing:
        return
    for question in questions("ledger"):
        yield from run.found("ledger", question)
    yield from run.found("ledger", _transitions())
    yield from _balance(run)
    if "trajectories" not in run.missing:
        for question in questions("ledger_episodes"):
            yield from run.found("ledger", question)
    yield from _last_seq(run)


def _transitions() -> str:
    legal = " OR ".join(
        f"(before = '{state}' AND state IN ({', '.join(repr(one) for one in after)}))" for state, after in _NEXT.items()
    )
    return f"""SELECT concat('ledger ', seq), concat('slot ', slot, ' of group ', group_id, ' goes from ',
      coalesce(before, 'nothing'), ' to ', state), 'a state that may follow'
    FROM (SELECT *, lag(state) OVER (PARTITION BY group_id, slot ORDER BY seq) AS before FROM ledger)
    WHERE NOT coalesce({legal}, state = 'in_flight')"""


def _balance(run: LoadedRun) -> Iterator[Finding]:
    """The slots by state that a step's metrics say against those of the rows up to then."""
    yield from run.found(
        "ledger",
        """WITH said AS (SELECT step, labels['state'] AS state, value FROM metrics WHERE name = 'data/slots'),
        steps AS (SELECT step, max(commit) AS last FROM shard_rows WHERE kind = 'step'
          AND step IN (SELECT step FROM said) GROUP BY step),
        rows AS (SELECT l.group_id, l.slot, l.seq, l.state, c.commit FROM ledger l
          JOIN shard_rows c ON c.table_name = 'ledger'
          AND l.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1),
        held AS (SELECT step, state, count(*) AS slots FROM (
          SELECT s.step, r.state FROM steps s JOIN rows r ON r.commit <= s.last
          QUALIFY row_number() OVER (PARTITION BY s.step, r.group_id, r.slot ORDER BY r.seq DESC) = 1) GROUP BY ALL)
        SELECT concat('step ', step), concat('data/slots says ', coalesce(value, 0), ' slots ', state),
          concat(coalesce(slots, 0), ', what the ledger holds by then')
        FROM said FULL JOIN held USING (step, state) WHERE coalesce(value, 0) <> coalesce(slots, 0)""",
    )


def _last_seq(run: LoadedRun) -> Iterator[Finding]:
    """Rows are numbered without a gap, as the commits say."""
    expected = -1
    held: dict[int, tuple[int, int]] = {}
    seqs = run.tables["ledger"].column("seq").to_pylist()
    for row in run.shards:
        if row.table == "ledger":
            held[row.commit] = (row.first_row, row.num_rows)
    for commit in run.folder.commits:
        first, count = held.get(commit.number, (0, 0))
        for place in range(first, first + count):
            expected += 1
            if seqs[place] != expected:
                yield Finding(
                    place=f"ledger {seqs[place]}",
                    text=f"commit {commit.number} holds seq {seqs[place]}",
                    expected=f"{expected}, without a gap",
                    concern="ledger",
                )
                expected = int(str(seqs[place]))
        if commit.last_seq != expected:
            yield Finding(
                place=f"commit {commit.number}",
                text=f"last_seq is {commit.last_seq}",
                expected=f"{expected}, of the rows up to it",
                concern="ledger",
            )
            return
