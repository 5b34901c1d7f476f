SELECT l.group_id, l.slot, l.attempt, state, rule, step, successor, terminal_reason, reward, unscored_reason, updates, influence, untrained
FROM slots l
LEFT JOIN trajectories USING (trajectory_id)
LEFT JOIN (SELECT trajectory_id, count(DISTINCT update) AS updates, sum(influence) AS influence, max(untrained_reason) AS untrained
  FROM receipts GROUP BY trajectory_id) USING (trajectory_id)
WHERE l.task_id = $task_id ORDER BY l.group_id, l.slot;
