"""What the tables of a run say: its held-out attempts at the start and at the end, and its metrics over the updates."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rollwright.evidence import GROUPS_PER_COMMIT, RunFolder, check, connect
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.runs import LadderRun, last_step, start_step
from rollwright.record import Task
from rollwright.tasks import TaskError, payload_of
from rollwright.tasks.contamination import AskedText

if TYPE_CHECKING:
    import duckdb

__all__ = ["Attempt", "RunView", "Sources", "view_of"]

_SERIES = ("entropy/sampled", "len/response", "len/trunc_rate", "env/invalid_action", "env/timeout")
_ATTEMPTS = f"""WITH own AS (
  SELECT trajectory_id, min(policy_version) AS version,
    exp(sum(list_sum(behavior_logprobs)) / greatest(sum(len(token_ids)), 1)) AS certainty
  FROM segments WHERE policy IS NOT NULL GROUP BY trajectory_id),
stood AS (SELECT trajectory_id, count(state_hash) - count(DISTINCT state_hash) AS repeats
  FROM segments GROUP BY trajectory_id),
spoken AS (SELECT trajectory_id, count(*) AS turns, bool_or(list_contains(s.token_ids, root.token_ids[1])) AS imitates
  FROM segments s JOIN (SELECT trajectory_id, context, token_ids FROM segments WHERE parent IS NULL) root
  USING (trajectory_id, context) WHERE s.policy IS NOT NULL GROUP BY trajectory_id),
called AS (SELECT trajectory_id, count(*) AS calls, count(*) FILTER (status = 'invalid_call') AS invalid
  FROM tool_calls GROUP BY trajectory_id),
judged AS (SELECT trajectory_id, json_group_object(verifier, value) AS verdicts
  FROM verdicts WHERE scoring = 0 AND scope = 'trajectory' AND value IS NOT NULL GROUP BY trajectory_id)
SELECT version, task_id, task_source, coalesce(json_extract_string(tasks.payload, '$.info.slice'), task_source),
  reward, num_action_tokens, terminal_reason, coalesce(calls, 0), coalesce(invalid, 0), coalesce(verdicts, '{{}}'),
  certainty, imitates, turns, repeats
FROM trajectories JOIN own USING (trajectory_id) JOIN spoken USING (trajectory_id)
  JOIN stood USING (trajectory_id) LEFT JOIN tasks USING (task_id)
  LEFT JOIN called USING (trajectory_id) LEFT JOIN judged USING (trajectory_id)
WHERE purpose = 'evaluation' AND group_id < {GROUPS_PER_COMMIT} AND reward IS NOT NULL
ORDER BY group_id, slot"""
_METRICS = """SELECT name, value FROM metrics WHERE step > $before AND list_contains($names, name)
  AND len(list_filter(map_keys(labels), lambda key: key <> 'model')) = 0 AND value IS NOT NULL ORDER BY step, update"""
_FOREIGN = """SELECT count(*) FROM (SELECT unnest(expand(token_weight)) AS weight FROM receipts
  JOIN segments USING (trajectory_id, segment) WHERE origin NOT IN ('policy', 'demonstration')) WHERE weight <> 0"""
_WEIGHED = "SELECT count(*) FROM (SELECT unnest(expand(token_weight)) AS weight FROM receipts) WHERE weight <> 0"
_TRAINED = """SELECT task_source, count(*) FROM slots WHERE state = 'trained' GROUP BY 1 ORDER BY 1"""
_SECONDS = "SELECT sum(value) FROM metrics WHERE list_contains(['time/collect', 'time/learn', 'time/publish'], name)"
_GROUPS = """SELECT least(3, (step - $before - 1) * 4 // greatest($steps, 1)) AS quarter, hits, count(*) FROM (
  SELECT any_value(l.step) AS step, count(*) FILTER (reward >= $threshold) AS hits
  FROM slots l JOIN trajectories t USING (trajectory_id)
  WHERE state = 'trained' AND purpose = 'train' AND reward IS NOT NULL AND l.step > $before GROUP BY l.group_id)
  GROUP BY ALL ORDER BY ALL"""
_LEAKED = """SELECT count(*) FROM tasks WHERE split = 'held_out'
  AND json_extract_string(payload, '$.info.cluster') IN (
    SELECT json_extract_string(payload, '$.info.cluster') FROM tasks WHERE split = 'train')"""
_ASKED = """SELECT task_id, split, payload FROM tasks WHERE split IN ('train', 'held_out') ORDER BY task_id"""
_APART = """SELECT count(*), count(*) FILTER ((terminal_reason = 'environment_success') <> (reward >= $threshold)),
  count(*) FILTER (terminal_reason IN ('environment_success', 'environment_failure'))
  FROM trajectories WHERE purpose = 'train' AND reward IS NOT NULL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One held-out attempt."""

    task: str
    source: str
    slice_name: str
    is_success: bool
    tokens: int
    reason: str
    calls: int
    invalid_calls: int
    verdicts: Mapping[str, float]
    """Verifier to its value."""
    certainty: float
    """Geometric mean of the probabilities of what it said."""
    imitates: bool
    """True where the policy opened a message in another's name."""
    turns: int
    repeats: int
    """Turns in a state in which it had been before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the numbers of a run come from."""

    protocols: tuple[str, ...]
    """Digests of the protocols of its evaluations."""
    frozen: str
    """That of the manifest."""
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A whole run, read."""

    run: LadderRun
    before: tuple[Attempt, ...]
    """Of the evaluation at the start of its RL, or of the whole run where it has none."""
    after: tuple[Attempt, ...]
    """Of that of its last step."""
    series: Mapping[str, tuple[float, ...]]
    """Metric to its value in each update behind the start."""
    foreign_tokens: int
    """Tokens with a weight that neither the policy nor a demonstration wrote."""
    weighed_tokens: int
    findings: tuple[str, ...]
    """Of the audit of its receipts."""
    trained: Mapping[str, int]
    """Source to its trained slots."""
    seconds: float
    """Of its steps."""
    outcomes: Mapping[tuple[int, int], int]
    """(quarter of the updates, successes of a group) to the number of groups."""
    leaked: int
    """Held-out tasks whose cluster is trained on."""
    asked: Mapping[str, tuple[AskedText, ...]]
    """Split to the questions of its tasks, as far as the run asked them."""
    apart: tuple[int, int, int]
    """Trained episodes; those on which verifier and environment differ; those whose end the environment said."""
    sources: Sources

    def mean_by_task(
        self, attempts: Sequence[Attempt], of: Callable[[Attempt], float], slice_name: str | None = None
    ) -> dict[str, float]:
        """Task to the mean of its attempts.

        Args:
            attempts: of this run.
            of: what is averaged.
            slice_name: of the tasks; None: all.
        """
        found: dict[str, list[float]] = {}
        for one in attempts:
            if slice_name is None or one.slice_name == slice_name:
                found.setdefault(one.task, []).append(of(one))
        return {task: sum(values) / len(values) for task, values in found.items()}


def view_of(run: LadderRun) -> RunView:
    """Read a whole run.

    Raises:
        LadderError: where it lacks the evaluation of its start or of its end.
    """
    recipe, folder = run.resolved.recipe, RunFolder.open(run.path)
    before, last, threshold = start_step(recipe), last_step(recipe), recipe.verifier.success_threshold
    first = before if before < last else 0
    with connect(run.path) as connection:
        attempts = _attempts(connection, threshold)
        if not attempts.get(first) or not attempts.get(last):
            raise LadderError(
                f"{run.path} has scored evaluations after {sorted(attempts)}; {first} and {last} are due."
            )
        return RunView(
            run=run,
            before=tuple(attempts[first]),
            after=tuple(attempts[last]),
            series=_series(connection, first),
            foreign_tokens=_number(connection, _FOREIGN),
            weighed_tokens=_number(connection, _WEIGHED),
            findings=tuple(str(finding) for finding in check(run.path).findings),
            trained=dict(cast("list[tuple[str, int]]", connection.execute(_TRAINED).fetchall())),
            seconds=float(cast("tuple[float]", connection.execute(_SECONDS).fetchone())[0] or 0.0),
            outcomes=_outcomes(connection, first, recipe.run.steps, threshold),
            leaked=_number(connection, _LEAKED),
            asked=_asked(connection),
            apart=cast(
                "tuple[int, int, int]", tuple(connection.execute(_APART, {"threshold": threshold}).fetchall()[0])
            ),
            sources=_sources(connection, folder),
        )


def _attempts(connection: "duckdb.DuckDBPyConnection", threshold: float) -> dict[int, list[Attempt]]:
    found: dict[int, list[Attempt]] = {}
    for version, *row in connection.execute(_ATTEMPTS).fetchall():
        task, source, slice_name, reward, tokens, reason, calls, invalid, verdicts, certainty, imitates, *turns = row
        found.setdefault(int(version), []).append(
            Attempt(
                task=task,
                source=source,
                slice_name=slice_name,
                is_success=reward >= threshold,
                tokens=tokens,
                reason=reason,
                calls=calls,
                invalid_calls=invalid,
                verdicts=json.loads(verdicts),
                certainty=certainty or 0.0,
                imitates=bool(imitates),
                turns=turns[0],
                repeats=turns[1],
            )
        )
    return found


def _series(connection: "duckdb.DuckDBPyConnection", before: int) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[float]] = {name: [] for name in _SERIES}
    for name, value in connection.execute(_METRICS, {"before": before, "names": list(_SERIES)}).fetchall():
        found[name].append(value)
    return {name: tuple(values) for name, values in found.items()}


def _outcomes(
    connection: "duckdb.DuckDBPyConnection", before: int, steps: int, threshold: float
) -> dict[tuple[int, int], int]:
    rows = connection.execute(_GROUPS, {"before": before, "steps": steps, "threshold": threshold}).fetchall()
    return {(int(quarter), int(hits)): int(count) for quarter, hits, count in rows}


def _sources(connection: "duckdb.DuckDBPyConnection", folder: RunFolder) -> Sources:
    rows = connection.execute("SELECT DISTINCT protocol_sha256 FROM evaluations ORDER BY 1").fetchall()
    return Sources(
        protocols=tuple(str(row[0]) for row in rows),
        frozen=folder.manifest.evaluation.protocol_sha256,
        commit=folder.manifest.run.code_commit,
    )


def _asked(connection: "duckdb.DuckDBPyConnection") -> dict[str, tuple[AskedText, ...]]:
    found: dict[str, list[AskedText]] = {}
    for task_id, split, payload in connection.execute(_ASKED).fetchall():
        found.setdefault(split, []).append(AskedText(id=task_id, text=_question(split, task_id, payload)))
    return {split: tuple(texts) for split, texts in found.items()}


def _question(split: str, task_id: str, payload: str) -> str:
    """What is asked; all of the payload where it is another world's own."""
    try:
        asked = payload_of(Task(task_id=task_id, source="", revision="", split=split, payload=payload))
    except TaskError:
        return payload
    return "\n".join(message.text for message in asked.messages)


def _number(connection: "duckdb.DuckDBPyConnection", sql: str) -> int:
    ((number,),) = connection.execute(sql).fetchall()
    return int(number)
