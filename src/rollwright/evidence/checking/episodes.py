"""Trajectories against their segments: counts, the tree, provenance, versions, ids and seeds."""

from collections.abc import Iterator

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions
from rollwright.record.seeds import evaluation_reset_seed, reset_seed

__all__ = ["check_episodes"]

_SHOWN_TOKENS = 5


def check_episodes(run: LoadedRun) -> Iterator[Finding]:
    """Every trajectory is what its segments say, and every segment what its place allows."""
    if "segments" not in run.missing and "trajectories" not in run.missing:
        for question in questions("episode_counts"):
            yield from run.found("episodes", question)
    for question in questions("episodes"):
        yield from run.found("episodes", question)
    yield from _tokens(run)
    yield from _lag(run)
    yield from _sampling(run)
    yield from _revisions(run)
    yield from _seeds(run)


def _tokens(run: LoadedRun) -> Iterator[Finding]:
    """Token ids that the tokenizer does not have."""
    tokens = run.tokens
    if tokens is None:
        return
    for token_id in sorted(run.foreign_ids)[:_SHOWN_TOKENS]:
        yield from run.found(
            "episodes",
            f"""SELECT concat_ws('/', trajectory_id, segment, list_position(token_ids, {token_id}) - 1),
            'token id {token_id} is not in the tokenizer', 'an id below {tokens.size}'
            FROM segments WHERE list_contains(token_ids, {token_id})""",
        )


def _lag(run: LoadedRun) -> Iterator[Finding]:
    """No weights sampled before they stood, and none older than the run lets train."""
    most = max((section.max_policy_lag for section in run.folder.manifest.algorithm), default=0)
    yield from run.found(
        "episodes",
        f"""SELECT concat('receipts ', r.update, ' ', r.trajectory_id, ' ', r.segment),
        concat('step ', r.step, ' trained tokens of policy version ', s.policy_version,
          CASE WHEN s.policy_version > r.step - 1 THEN ', which did not stand yet' ELSE '' END),
        concat('version ', greatest(0, r.step - 1 - {most}), ' to ', r.step - 1)
        FROM receipts r JOIN segments s USING (trajectory_id, segment)
        WHERE s.policy_version IS NOT NULL AND r.untrained_reason IS DISTINCT FROM 'stale' AND r.num_kept > 0
        AND (s.policy_version > r.step - 1 OR r.step - 1 - s.policy_version > {most})""",
    )
    yield from run.found(
        "episodes",
        """SELECT concat('receipts ', r.update, ' ', r.trajectory_id, ' ', r.segment), concat('lag is ', r.lag),
        concat(r.step - 1 - coalesce(s.policy_version, r.step - 1), ', step - 1 - policy_version')
        FROM receipts r JOIN segments s USING (trajectory_id, segment)
        WHERE r.lag <> r.step - 1 - coalesce(s.policy_version, r.step - 1)""",
    )


def _sampling(run: LoadedRun) -> Iterator[Finding]:
    """Training draws from the distribution that the configuration names."""
    for column in ("temperature", "top_p", "top_k", "min_p"):
        key = f"rollout.{column}"
        allowed = {v.value for m in run.manifests for v in m.configuration if v.key == key}
        if not allowed:
            continue
        listed = ", ".join(f"{value}::FLOAT" for value in sorted(allowed))
        yield from run.found(
            "episodes",
            f"""SELECT {_SEGMENT}, concat('it was sampled with {column} ', s.sampling.{column}),
            '{", ".join(sorted(allowed))}, as {key} says'
            FROM segments s JOIN trajectories t USING (trajectory_id) WHERE t.purpose = 'train' AND s.origin = 'policy'
            AND s.sampling.{column} NOT IN ({listed})""",
        )


def _revisions(run: LoadedRun) -> Iterator[Finding]:
    """Environment and rendering are those that the manifests name."""
    if run.folder.manifest.run.source_run_id is not None:
        return
    known: dict[str, set[str]] = {
        "environment_revision": {m.environment.revision for m in run.manifests},
        "rendering_revision": {str(m.environment.tool_schema_revision) for m in run.manifests},
    }
    for column, allowed in known.items():
        rows = run.rows(f"SELECT trajectory_id, {column} FROM trajectories WHERE environment <> 'none'")
        others = [(name, value) for name, value in rows if value not in allowed]
        # A manifest that names the revision otherwise for all episodes speaks of something else.
        for name, value in others if len(others) < len(rows) else ():
            yield Finding(
                place=f"trajectories {name}",
                text=f"{column} is {str(value)[:16]}",
                expected=f"{', '.join(one[:16] for one in sorted(allowed))}, as the manifest says",
                concern="episodes",
            )


def _seeds(run: LoadedRun) -> Iterator[Finding]:
    """Reset seeds are functions of the run's seed and the group, or of the protocol and the task."""
    manifest = run.folder.manifest
    seed = manifest.seeds.get("run")
    if seed is None or manifest.run.source_run_id is not None:
        return
    for purpose, group_id, given, name in run.rows(
        """SELECT purpose, group_id, reset_seed, trajectory_id FROM trajectories
        WHERE purpose IN ('train', 'demonstration') AND environment <> 'none'
        AND lineage IS DISTINCT FROM 'replay_of'"""
    ):
        due = reset_seed(seed, str(purpose), int(str(group_id)))
        if given != due:
            yield Finding(
                place=f"trajectories {name}",
                text=f"reset_seed is {given}",
                expected=f"{due}, of the run's seed {seed}, its purpose and its group",
                concern="episodes",
            )
    digests = [str(row[0]) for row in run.rows("SELECT DISTINCT protocol_sha256 FROM evaluations")]
    if not digests:
        return
    for name, task_id, given in run.rows(
        "SELECT trajectory_id, task_id, reset_seed FROM trajectories WHERE purpose = 'evaluation'"
    ):
        if given not in {evaluation_reset_seed(digest, str(task_id)) for digest in digests}:
            yield Finding(
                place=f"trajectories {name}",
                text=f"reset_seed is {given}",
                expected=f"{evaluation_reset_seed(digests[0], str(task_id))}, of the protocol's digest and the task",
                concern="episodes",
            )


_SEGMENT = "concat('segments ', s.trajectory_id, ' ', s.segment)"
