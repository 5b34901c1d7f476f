"""Metrics made again from the rows that they are of, as far as no model and no objective is needed."""

from collections.abc import Iterator

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions
from rollwright.record.rows import Flag

__all__ = ["check_evaluations", "check_numbers"]

_CLOSE = 1e-6
"""Relative; what was summed in another order differs in its last digits."""
_CLOSE_SCORES = 1e-5
"""Of sums of 32-bit scores."""

_TRAINED = """(SELECT r.step AS of_step, t.* FROM trajectories t
  JOIN (SELECT DISTINCT step, trajectory_id FROM slots WHERE state = 'trained') r USING (trajectory_id)
  WHERE t.purpose = 'train')"""


def check_numbers(run: LoadedRun) -> Iterator[Finding]:
    """The metrics of steps and of updates against trajectories and receipts."""
    if not {"trajectories", "receipts", "metrics"} & run.missing and len(run.manifests) == 1:
        for question in questions("absent"):
            yield from run.found("numbers", question)
    if not {"trajectories", "ledger"} & run.missing:
        for name, labels, sql in _OF_STEPS:
            yield from _compared(run, name, labels, sql, of="step")
    if "receipts" in run.missing:
        return
    for name, labels, sql in _OF_UPDATES:
        yield from _compared(run, name, labels, sql, of="update")
    if run.folder.retention != "sums":
        for name, labels, sql in _OF_TOKENS:
            yield from _compared(run, name, labels, sql, of="update")
        yield from _denominators(run)
    if run.folder.retention == "full":
        for name, labels, sql in _OF_SCORES:
            yield from _compared(run, name, labels, sql, of="update")


def check_evaluations(run: LoadedRun) -> Iterator[Finding]:
    """The values of evaluations against their episodes, and their protocol against the manifest's."""
    protocols = {m.evaluation.protocol_sha256 for m in run.manifests}
    for evaluation, sha256 in run.rows("SELECT DISTINCT evaluation, protocol_sha256 FROM evaluations"):
        # What `eval` added under a protocol of its own carries its commit's number.
        if sha256 not in protocols and "#" not in str(evaluation):
            yield Finding(
                place=f"evaluations {evaluation}",
                text=f"protocol_sha256 is {str(sha256)[:12]}…",
                expected=f"{', '.join(f'{p[:12]}…' for p in sorted(protocols))}, as the manifest says",
                concern="evaluations",
            )
    for question in questions("intervals"):
        yield from run.found("evaluations", question)
    if "trajectories" in run.missing:
        return
    run.connection.execute(_lay_evaluated(run))
    for metric, labels, value in _OF_EVALUATIONS:
        yield from run.found("evaluations", _evaluated(metric, labels, value))
    for question in questions("evaluations"):
        yield from run.found("evaluations", question)


def _compared(run: LoadedRun, name: str, labels: str, sql: str, *, of: str) -> list[Finding]:
    """A stored metric that is not what its rows give."""
    place = (
        "concat('metrics step ', m.step, ' ', m.name)"
        if of == "step"
        else "concat('metrics update ', m.update, ' ', m.name)"
    )
    close = _CLOSE_SCORES if name.startswith("entropy/") else _CLOSE
    join = "m.step = d.step AND m.update = 0" if of == "step" else "m.update = d.update"
    return run.found(
        "numbers",
        f"""SELECT concat({place}, ' ', m.labels::TEXT), concat('it is ', coalesce(m.value::TEXT, 'undefined')),
        concat(coalesce(d.due::TEXT, 'undefined'), ', of the rows of the run')
        FROM metrics m JOIN ({sql}) d ON {join}
        WHERE m.name = '{name}' AND ({labels}) AND ((m.value IS NULL) <> (d.due IS NULL)
          OR abs(m.value - d.due) > {close} * greatest(abs(m.value), abs(d.due), 1e-3))""",
    )


def _denominators(run: LoadedRun) -> Iterator[Finding]:
    """Under a mean over tokens each trained token weighs weight_sum over their number, and that is the denominator."""
    stages = [m.stage for m in run.folder.manifest.algorithm if m.loss_denominator == "token_mean"]
    balanced = any(v.key.startswith("objective.source_targets.") for v in run.folder.manifest.configuration)
    if (
        not stages
        or balanced
        or any(v.key == "objective.counting" and "kept" in v.value for v in run.folder.manifest.configuration)
    ):
        return
    listed = ", ".join("'" + stage.replace("'", "''") + "'" for stage in stages)
    yield from run.found(
        "gradients",
        f"""WITH of_stage AS (SELECT DISTINCT r.update FROM receipts r JOIN trajectories t USING (trajectory_id)
          WHERE t.stage IN ({listed})),
        d AS (SELECT update, labels['model'] AS model, labels['component'] AS component, value AS total FROM metrics
          WHERE name = 'weight_sum'),
        n AS (SELECT update, model, component, mode(weight) AS usual, sum(weight) AS total, count(*) AS tokens
          FROM weighed w WHERE {_WEIGHED} GROUP BY ALL),
        c AS (SELECT n.*, count(*) AS same FROM n JOIN weighed w USING (update, model, component)
          WHERE {_WEIGHED} AND abs(w.weight - n.usual) <= 1e-9 * abs(n.usual) GROUP BY ALL)
        SELECT concat_ws('/', w.trajectory_id, w.segment, w.index),
          concat('its weight is ', w.weight, ' in update ', w.update),
          concat(c.usual, ', as ', c.same, ' other of the ', c.tokens, ' tokens of the update')
        FROM weighed w JOIN of_stage USING (update) JOIN d USING (update, model, component)
        JOIN c USING (update, model, component)
        WHERE {_WEIGHED} AND w.component IN ('policy_gradient', 'nll') AND 2 * c.same > c.tokens
          AND abs(w.weight - c.usual) > 1e-9 * abs(c.usual)
        UNION ALL SELECT concat('update ', c.update, ' ', c.component),
          concat('most of its tokens weigh ', c.usual), concat(d.total / c.tokens, ' = ', d.total, ' / ', c.tokens)
        FROM c JOIN of_stage USING (update) JOIN d USING (update, model, component)
        WHERE c.component IN ('policy_gradient', 'nll') AND abs(c.usual * c.tokens - d.total) > 1e-9 * abs(d.total)""",
    )
    yield from run.found(
        "gradients",
        f"""WITH of_stage AS (SELECT DISTINCT r.update FROM receipts r JOIN trajectories t USING (trajectory_id)
          WHERE t.stage IN ({listed})),
        n AS (SELECT update, model, component, sum(num_eligible) AS tokens FROM receipts
          WHERE coalesce(untrained_reason, '') NOT IN ('unscored', 'stale', 'truncated', 'rejected') GROUP BY ALL)
        SELECT concat('metrics update ', m.update, ' denominator ', m.labels['component']), concat('it is ', m.value),
          concat(n.tokens, ', the tokens of its rows')
        FROM metrics m JOIN of_stage USING (update)
        JOIN n ON n.update = m.update AND n.model = m.labels['model'] AND n.component = m.labels['component']
        WHERE m.name = 'denominator' AND m.labels['component'] IN ('policy_gradient', 'nll') AND m.value <> n.tokens
        AND NOT EXISTS (SELECT 1 FROM receipts x WHERE x.update = m.update AND x.untrained_reason = 'rejected')""",
    )


_WEIGHED = """NOT w.is_first AND coalesce(w.withheld, '') NOT IN ('unscored', 'stale', 'truncated')
  AND (w.weight <> 0 OR w.flags & 504 = 0)"""
"""Tokens that weigh what every other one does; 504: flags of a token that a rule cut."""
_PLAIN = "len(map_keys(m.labels)) = 0"
_MODEL = "map_keys(m.labels) = ['model']"
_OF_STEPS = (
    ("reward/total", _PLAIN, f"SELECT of_step AS step, avg(reward) AS due FROM {_TRAINED} GROUP BY of_step"),
    (
        "reward/total",
        "map_keys(m.labels) = ['stat'] AND m.labels['stat'] = 'std'",
        f"SELECT of_step AS step, stddev_pop(reward) AS due FROM {_TRAINED} GROUP BY of_step",
    ),
    (
        "data/unscored",
        _PLAIN,
        f"SELECT of_step AS step, count(*) FILTER (reward IS NULL)::DOUBLE AS due FROM {_TRAINED} GROUP BY of_step",
    ),
    (
        "len/response",
        _PLAIN,
        f"SELECT of_step AS step, avg(num_action_tokens) AS due FROM {_TRAINED} GROUP BY of_step",
    ),
    ("env/steps", _PLAIN, f"SELECT of_step AS step, avg(num_turns) AS due FROM {_TRAINED} GROUP BY of_step"),
    (
        "env/tool_calls",
        _PLAIN,
        f"""SELECT of_step AS step, count(c.call_id)::DOUBLE / count(DISTINCT t.trajectory_id) AS due
        FROM {_TRAINED} t LEFT JOIN tool_calls c USING (trajectory_id) GROUP BY of_step""",
    ),
    (
        "env/tool_error",
        _PLAIN,
        f"""SELECT of_step AS step, avg((status = 'tool_error')::INT) AS due
        FROM {_TRAINED} t LEFT JOIN tool_calls c USING (trajectory_id) GROUP BY of_step""",
    ),
    (
        "len/trunc_rate",
        _PLAIN,
        f"SELECT of_step AS step, avg(truncated::INT) AS due FROM {_TRAINED} GROUP BY of_step",
    ),
)
_OF_UPDATES = (
    (
        "policy/loss",
        """len(map_keys(m.labels)) = 2 AND m.labels['component'] = d.component AND m.labels['model'] = d.model""",
        "SELECT update, model, component, sum(loss) AS due FROM receipts GROUP BY ALL",
    ),
)
_MAIN = "FROM weighed w WHERE w.is_main AND w.weight <> 0 GROUP BY update, model"
_FLAGGED = "map_keys(m.labels) = ['model'] AND m.labels['model'] = d.model"
_OF_TOKENS = (
    (
        "mask/zero_advantage_tokens",
        _FLAGGED,
        f"SELECT update, model, count(*) FILTER (flags & {Flag.ZERO_ADVANTAGE} > 0)::DOUBLE AS due {_MAIN}",
    ),
    (
        "mask/nonfinite_tokens",
        _FLAGGED,
        f"SELECT update, model, count(*) FILTER (flags & {Flag.NON_FINITE} > 0)::DOUBLE AS due {_MAIN}",
    ),
    *(
        (
            "policy/clip_frac",
            f"m.labels['side'] = '{side}' AND len(map_keys(m.labels)) = 2 AND m.labels['model'] = d.model",
            f"SELECT update, model, avg((flags & {bit} > 0)::INT) AS due {_MAIN}",
        )
        for side, bit in (("high", Flag.CLIPPED_HIGH), ("low", Flag.CLIPPED_LOW), ("dual", Flag.DUAL_CLIP))
    ),
)
_UNCUT = """FROM receipts r JOIN metrics n ON n.update = r.update AND n.name = 'entropy/full'
  AND map_keys(n.labels) = ['model'] AND n.labels['model'] = r.model WHERE r.entropy IS NOT NULL AND r.num_kept > 0
  GROUP BY r.update, r.model HAVING sum(r.num_kept) = any_value(n.num_items)"""
"""Where every token that a metric is of was kept, the means over kept tokens make it."""
_EQUAL = "w.lag = 0 AND w.policy_version = w.step - 1 AND isfinite(w.proximal) AND isfinite(w.behavior)"
_OF_SCORES = (
    *(
        (
            "mismatch/logp_abs",
            f"m.labels['stat'] = '{stat}' AND len(map_keys(m.labels)) = 2 AND m.labels['model'] = d.model",
            f"""SELECT update, model, {function}(abs(w.proximal::DOUBLE - w.behavior)) FILTER ({_EQUAL}) AS due {_MAIN}
            HAVING count(*) FILTER ({_EQUAL}) > 0""",
        )
        for stat, function in (("mean", "avg"), ("max", "max"))
    ),
    (
        "entropy/full",
        _FLAGGED,
        f"SELECT r.update, r.model, sum(r.entropy::DOUBLE * r.num_kept) / sum(r.num_kept) AS due {_UNCUT}",
    ),
    (
        "entropy/sampled",
        _FLAGGED,
        f"""SELECT update, model, -avg(w.current::DOUBLE) AS due {_MAIN}
        HAVING count(w.current) = count(*) AND bool_and(isfinite(w.current))""",
    ),
    (
        "is/ess",
        _FLAGGED,
        f"""SELECT update, model, pow(sum(exp(w.proximal::DOUBLE - w.behavior)), 2)
          / sum(exp(2 * (w.proximal::DOUBLE - w.behavior))) AS due {_MAIN}
        HAVING count(w.proximal) > 0 AND count(w.behavior) = count(*) AND max(abs(w.proximal - w.behavior)) < 15""",
    ),
)


def _lay_evaluated(run: LoadedRun) -> str:
    """Which episodes an evaluation is of: those of purpose evaluation that its commit holds."""
    threshold = next(
        (v.value for v in run.folder.manifest.configuration if v.key == "verifier.success_threshold"), "1.0"
    )
    return f"""CREATE OR REPLACE TABLE evaluated AS
      WITH held AS (SELECT t.*, c.commit FROM trajectories t JOIN shard_rows c ON c.table_name = 'trajectories'
        AND t.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1 WHERE t.purpose = 'evaluation'),
      of_commit AS (SELECT DISTINCT e.evaluation, e.policy, e.policy_version, c.commit
        FROM evaluations e JOIN shard_rows c ON c.table_name = 'evaluations'
        AND e.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1),
      alone AS (FROM of_commit QUALIFY count(*) OVER (PARTITION BY commit) = 1)
      SELECT alone.evaluation, alone.policy, alone.policy_version, held.*, held.reward >= {threshold} AS is_success
      FROM alone JOIN held USING (commit)"""


def _evaluated(metric: str, labels: str, value: str) -> str:
    return f"""WITH of_task AS (SELECT evaluation, task_id, {value} AS value FROM evaluated WHERE reward IS NOT NULL
        GROUP BY evaluation, task_id),
      due AS (SELECT evaluation, avg(value) AS due FROM of_task GROUP BY evaluation)
      SELECT concat('evaluations ', e.evaluation, ' ', e.metric, ' ', e.labels::TEXT), concat('it is ', e.value),
        concat(d.due, ', of its episodes')
      FROM evaluations e JOIN due d USING (evaluation) WHERE e.metric = '{metric}' AND {labels}
      AND abs(e.value - d.due) > {_CLOSE} * greatest(1, abs(d.due))"""


_NO_LABELS = "len(map_keys(e.labels)) = 0"
_OF_EVALUATIONS = (
    ("success", _NO_LABELS, "avg(is_success::INT)"),
    ("reward", _NO_LABELS, "avg(reward)"),
    ("pass_at_k", "map_keys(e.labels) = ['k'] AND e.labels['k'] = '1'", "avg(is_success::INT)"),
)
