-- A row a receipt and token; then what a receipt keeps at least and at most. Flags: 504 a token that was cut.
CREATE TABLE weighed AS SELECT *, is_first_segment AND index = 0 AS is_first FROM (SELECT step, update, model, component, trajectory_id, segment, policy_version, lag,
    num_kept, withheld, has_current, is_main, is_first_segment, temperature,
    unnest(range(num_tokens)) AS index, unnest(token_ids) AS token_id, unnest(token_weight) AS weight,
    unnest(advantage) AS advantage, unnest(correction) AS correction, unnest(flags) AS flags,
    unnest(proximal) AS proximal, unnest(current) AS current, unnest(reference) AS reference, unnest(behavior) AS behavior
  FROM (SELECT r.step, r.update, r.model, r.component, r.trajectory_id, r.segment, s.policy_version, r.lag, r.num_kept,
    s.sampling.temperature AS temperature,
    r.untrained_reason AS withheld, r.current_logprobs IS NOT NULL AS has_current, r.advantage IS NOT NULL AS is_main, s.start = 0 AS is_first_segment,
    len(s.token_ids) AS num_tokens, s.token_ids, expand(r.token_weight) AS token_weight,
    coalesce(expand(r.advantage), list_resize([]::FLOAT[], len(s.token_ids), 0)) AS advantage,
    coalesce(expand(r.correction), list_resize([]::FLOAT[], len(s.token_ids), 1)) AS correction,
    coalesce(expand(r.flags), list_resize([]::USMALLINT[], len(s.token_ids), 0)) AS flags,
    coalesce(r.proximal_logprobs, list_resize([]::FLOAT[], len(s.token_ids), NULL)) AS proximal,
    coalesce(r.current_logprobs, r.proximal_logprobs, list_resize([]::FLOAT[], len(s.token_ids), NULL)) AS current,
    coalesce(r.reference_logprobs, list_resize([]::FLOAT[], len(s.token_ids), NULL)) AS reference,
    coalesce(s.behavior_logprobs, list_resize([]::FLOAT[], len(s.token_ids), NULL)) AS behavior
    FROM receipts r JOIN segments s USING (trajectory_id, segment) WHERE len(s.token_ids) > 0));

CREATE TABLE kept_of AS SELECT update, model, component, trajectory_id, segment,
    count(*) FILTER (flags & 504 = 0 AND NOT is_first) AS least, count(*) FILTER (NOT is_first) AS most,
    coalesce(sum(abs(weight * correction * advantage)) FILTER (flags & 504 = 0), 0) AS moved_least,
    coalesce(sum(abs(weight * correction * advantage)) FILTER (isfinite(correction)), 0) AS moved
  FROM weighed WHERE is_main GROUP BY ALL;
