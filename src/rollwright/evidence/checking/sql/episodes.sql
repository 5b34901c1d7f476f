-- Trajectories and segments.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('num_tokens is ', num_tokens), concat(len(token_ids), ', its token_ids')
    FROM segments s WHERE num_tokens <> len(token_ids)

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('parent is ', s.parent), 'an earlier segment of the trajectory'
    FROM segments s LEFT JOIN segments p ON p.trajectory_id = s.trajectory_id AND p.segment = s.parent
    WHERE s.parent IS NOT NULL AND (p.segment IS NULL OR s.parent >= s.segment)

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('it starts at ', s.start),
    concat(coalesce(p.start + len(p.token_ids), 0), ', where its parent ends')
    FROM segments s LEFT JOIN segments p ON p.trajectory_id = s.trajectory_id AND p.segment = s.parent
    WHERE s.start <> coalesce(p.start + len(p.token_ids), 0) AND (s.parent IS NULL OR p.segment IS NOT NULL)

------
SELECT concat('trajectories ', trajectory_id), concat('its segments are numbered ', list(segment ORDER BY segment)::TEXT),
    concat('0 to ', count(*) - 1) FROM segments GROUP BY trajectory_id
    HAVING min(segment) <> 0 OR max(segment) <> count(*) - 1

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('a segment of origin ', origin, ' has ',
      CASE WHEN behavior_logprobs IS NULL THEN 'no' ELSE len(behavior_logprobs)::TEXT END, ' behavior_logprobs'),
    CASE WHEN origin IN ('policy', 'teacher') THEN concat(len(token_ids), ', one a token') ELSE 'none' END
    FROM segments s WHERE CASE WHEN origin IN ('policy', 'teacher')
      THEN coalesce(len(behavior_logprobs), -1) <> len(token_ids) ELSE behavior_logprobs IS NOT NULL END

------
SELECT concat_ws('/', trajectory_id, segment, i), concat('behavior_logprobs holds ', v), 'at most 0'
    FROM (SELECT trajectory_id, segment, unnest(behavior_logprobs) AS v,
      generate_subscripts(behavior_logprobs, 1) - 1 AS i FROM segments WHERE behavior_logprobs IS NOT NULL)
    WHERE v > 0 OR isnan(v)

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('a segment of origin ', origin, ' names ',
      concat_ws(', ', CASE WHEN policy IS NULL THEN 'no policy' END,
      CASE WHEN policy_version IS NULL THEN 'no policy_version' END, CASE WHEN sampling IS NULL THEN 'no sampling' END)),
    'the weights and the distribution that drew it'
    FROM segments s WHERE origin IN ('policy', 'teacher')
    AND (policy IS NULL OR policy_version IS NULL OR sampling IS NULL)

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('a segment of origin ', origin, ' names weights that sampled it'), 'none'
    FROM segments s WHERE origin IN ('task', 'tool', 'environment', 'user', 'template', 'demonstration')
    AND (policy_version IS NOT NULL OR policy IS NOT NULL)

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('cache_version is ', cache_version), concat('at most its policy_version ', policy_version)
    FROM segments s WHERE cache_version > policy_version

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('the temperature is ', sampling.temperature), 'at least 0'
    FROM segments s WHERE sampling.temperature < 0

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('span ', x.kind, ' is ', x.token_start, ' to ', x.token_end),
    concat('within 0 to ', num_tokens) FROM (SELECT s.*, unnest(spans) AS x FROM segments s) s
    WHERE x.token_start < 0 OR x.token_end > num_tokens OR x.token_end < x.token_start

------
SELECT concat('trajectories ', trajectory_id), concat('its id says purpose, group, slot and attempt otherwise than ',
      concat_ws(' ', purpose, group_id, slot, attempt)),
    concat(purpose[1], lpad(group_id::TEXT, greatest(6, length(group_id::TEXT))::INT, '0'), '-',
      lpad(slot::TEXT, greatest(2, length(slot::TEXT))::INT, '0'), '-', attempt)
    FROM trajectories WHERE trajectory_id <> concat(purpose[1],
      lpad(group_id::TEXT, greatest(6, length(group_id::TEXT))::INT, '0'), '-',
      lpad(slot::TEXT, greatest(2, length(slot::TEXT))::INT, '0'), '-', attempt)

------
SELECT concat('trajectories ', t.trajectory_id), concat('its parent ', t.parent_trajectory_id, ' is not there'),
    'a trajectory of the run' FROM trajectories t LEFT JOIN trajectories p ON p.trajectory_id = t.parent_trajectory_id
    WHERE t.parent_trajectory_id IS NOT NULL AND p.trajectory_id IS NULL AND t.lineage IS DISTINCT FROM 'replay_of'
    AND t.lineage IS DISTINCT FROM 'forked_from'

------
SELECT concat('trajectories ', trajectory_id),
    CASE WHEN lineage IS NULL THEN 'it names a parent and no lineage' ELSE 'its lineage is ' || lineage || ' and it names no parent' END,
    'both or neither' FROM trajectories WHERE (lineage IS NULL) <> (parent_trajectory_id IS NULL)

------
SELECT concat('trajectories ', trajectory_id), concat('attempt ', attempt, ' has lineage ', coalesce(lineage, 'none')),
    'retry_of, resumed_from or the like' FROM trajectories WHERE attempt > 0 AND lineage IS NULL

------
SELECT concat('trajectories ', trajectory_id),
    concat('terminal_reason is ', terminal_reason, ' and failure_class ', coalesce(failure_class, 'none')),
    CASE WHEN terminal_reason = 'infrastructure_failure' THEN 'a failure class' ELSE 'no class infrastructure' END
    FROM trajectories WHERE (terminal_reason = 'infrastructure_failure' AND failure_class IS NULL)
    OR (terminal_reason IN ('model_end', 'environment_success', 'environment_failure') AND failure_class = 'infrastructure')

------
SELECT concat('trajectories ', trajectory_id), concat('it ended at ', ended_at, ', before it began'), started_at
    FROM trajectories WHERE ended_at < started_at

------
SELECT concat('group ', group_id, ' of ', purpose), concat('it holds ', count(DISTINCT task_id), ' tasks: ',
      string_agg(DISTINCT task_id, ', ')), 'one task a dispatch'
    FROM trajectories GROUP BY purpose, group_id HAVING count(DISTINCT task_id) > 1

------
SELECT concat('group ', group_id, ' of ', purpose), concat('its episodes were reset by ',
      count(DISTINCT reset_seed), ' seeds'), 'one seed a group'
    FROM trajectories WHERE purpose IN ('train', 'evaluation') GROUP BY purpose, group_id
    HAVING count(DISTINCT reset_seed) > 1

------
SELECT concat('group ', group_id), concat('it stands for ', string_agg(DISTINCT purpose, ' and ')),
    'one counter serves all purposes' FROM trajectories GROUP BY group_id HAVING count(DISTINCT purpose) > 1

------
SELECT concat('tasks ', task_id), 'its id is not the digest of its payload',
    concat(source, '/', left(sha256(payload), 16)) FROM stored_tasks
    WHERE task_id <> concat(source, '/', left(sha256(payload), 16))

------
SELECT concat('trajectories ', t.trajectory_id), concat('its task ', t.task_id, ' is not among the tasks'),
    'a row of tasks' FROM trajectories t ANTI JOIN tasks k USING (task_id)

------
SELECT concat('trajectories ', t.trajectory_id), concat('it says its task is of ',
      concat_ws(' ', t.task_source, t.task_revision, t.task_split)), concat_ws(' ', k.source, k.revision, k.split)
    FROM trajectories t JOIN tasks k USING (task_id)
    WHERE (t.task_source, t.task_revision, t.task_split) <> (k.source, k.revision, k.split)

------
SELECT concat('trajectories ', trajectory_id), concat('it trains on a task of the split ', task_split), 'train'
    FROM trajectories WHERE purpose IN ('train', 'demonstration') AND task_split = 'held_out'

------
WITH first AS (SELECT trajectory_id, min(segment) AS acted FROM segments
    WHERE origin IN ('policy', 'demonstration', 'teacher', 'replayed') GROUP BY trajectory_id),
  openings AS (SELECT s.trajectory_id, any_value(t.purpose) AS purpose, any_value(t.group_id) AS group_id,
    flatten(list(s.token_ids ORDER BY s.segment)) AS opening FROM segments s JOIN trajectories t USING (trajectory_id)
    LEFT JOIN first USING (trajectory_id)
    WHERE s.segment < coalesce(acted, 1 << 30) AND t.purpose IN ('train', 'evaluation') AND t.lineage IS NULL
    GROUP BY s.trajectory_id),
  common AS (SELECT purpose, group_id, mode(opening) AS usual, count(*) AS episodes FROM openings GROUP BY purpose, group_id)
SELECT concat('segments ', o.trajectory_id, ' before the first turn, token ', list_position(list_transform(
      range(greatest(len(o.opening), len(c.usual))), lambda i: o.opening[i + 1] IS DISTINCT FROM c.usual[i + 1]), true) - 1),
    'its prompt differs from that of the other episodes of its group, which have the same task and the same seed',
    'the same tokens'
FROM openings o JOIN common c USING (purpose, group_id) WHERE c.episodes > 1 AND o.opening <> c.usual

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment), concat('finish is stop_token and the last token is ',
    s.token_ids[-1]), concat(u.usual, ', as in every other turn that stopped')
FROM segments s, (SELECT mode(token_ids[-1]) AS usual, count(*) AS turns,
    count(DISTINCT token_ids[-1]) AS kinds FROM segments WHERE finish = 'stop_token' AND len(token_ids) > 0) u
WHERE s.finish = 'stop_token' AND len(s.token_ids) > 0 AND u.turns > 20 AND s.token_ids[-1] <> u.usual
    AND (SELECT count(*) FROM segments x WHERE x.finish = 'stop_token' AND x.token_ids[-1] = s.token_ids[-1]) = 1

------
SELECT concat('segments ', trajectory_id, ' ', segment), concat('it was sampled with ', sampling::TEXT),
    concat(usual::TEXT, ', as the other episodes of ', purpose, ' of its commit')
FROM (SELECT s.trajectory_id, s.segment, s.sampling, t.purpose,
    mode(s.sampling) OVER (PARTITION BY t.purpose, s.policy, c.commit) AS usual
  FROM segments s JOIN trajectories t USING (trajectory_id)
  JOIN shard_rows c ON c.table_name = 'trajectories' AND t.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1
  WHERE s.origin = 'policy' AND t.purpose = 'evaluation')
WHERE sampling IS DISTINCT FROM usual

------
SELECT concat('trajectories ', trajectory_id), concat('initial_state_hash is ', initial_state_hash),
    concat(usual, ', as in the rest of its group, which began from one task and one seed')
FROM (SELECT trajectory_id, initial_state_hash, mode(initial_state_hash) OVER (PARTITION BY purpose, group_id) AS usual
  FROM trajectories WHERE purpose IN ('train', 'evaluation') AND lineage IS NULL)
WHERE initial_state_hash IS DISTINCT FROM usual AND usual IS NOT NULL

------
WITH last AS (SELECT trajectory_id, max(segment) AS segment FROM segments GROUP BY trajectory_id)
SELECT concat('trajectories ', t.trajectory_id), concat('terminal_reason is ', t.terminal_reason,
      ' and its last segment, ', s.segment, ', asks for a turn that nobody took'),
    'a limit, or an end from outside'
FROM trajectories t JOIN last USING (trajectory_id) JOIN segments s USING (trajectory_id, segment)
WHERE t.terminal_reason IN ('model_end', 'environment_success', 'environment_failure') AND s.origin = 'template' AND s.copied_from IS NULL
