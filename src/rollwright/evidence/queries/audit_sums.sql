WITH p AS (SELECT s.*, model, component FROM segments s JOIN eligible e ON e.origin = s.origin AND e.policy IS NOT DISTINCT FROM s.policy),
d AS (SELECT update, labels['model'] AS model, labels['component'] AS component, value AS due FROM metrics WHERE name = 'weight_sum'),
f AS (SELECT update, model, component,
  count(*) FILTER (coalesce(purpose, '') NOT IN ('train', 'demonstration')
    OR p.num_tokens IS DISTINCT FROM num_eligible OR p.num_tokens <> len(token_ids)
    OR policy IS NOT NULL AND p.num_tokens IS DISTINCT FROM len(behavior_logprobs))
  + count(*) - count(DISTINCT (trajectory_id, segment)) AS faults
  FROM receipts LEFT JOIN p USING (trajectory_id, segment, model, component) LEFT JOIN trajectories USING (trajectory_id) GROUP BY ALL),
l AS (SELECT step, trajectory_id, segment FROM slots LEFT JOIN (SELECT DISTINCT trajectory_id, segment FROM p) USING (trajectory_id) WHERE state = 'trained'),
r AS (SELECT trajectory_id, segment, count(DISTINCT step) AS steps, min(step) AS first_step
  FROM receipts LEFT JOIN trajectories USING (trajectory_id) WHERE purpose IS DISTINCT FROM 'demonstration' GROUP BY ALL)
SELECT concat_ws(' ', update, model, component) AS place, due, NULL::DOUBLE AS found, faults FROM d FULL JOIN f USING (update, model, component)
WHERE faults > 0 OR due IS NULL OR faults IS NULL
UNION ALL
SELECT concat_ws(' ', trajectory_id, segment), step, first_step, steps FROM l FULL JOIN r USING (trajectory_id, segment)
WHERE step IS NULL OR steps IS NULL OR steps <> 1 OR first_step <> step;
