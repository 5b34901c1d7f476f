SELECT t.trajectory_id, task_id, terminal_reason, reward, group_mean, sum(influence) AS moved,
  moved / nullif(sum(sum(influence)) OVER (), 0) AS share, max(lag) AS lag, 1 - sum(num_kept) / nullif(sum(num_eligible), 0) AS share_cut,
  (SELECT list(verifier || '=' || coalesce(value::TEXT, error_cause)) FROM verdicts v WHERE v.trajectory_id = t.trajectory_id AND scoring = 0) AS verdicts
FROM receipts JOIN trajectories t USING (trajectory_id)
JOIN (SELECT group_id, purpose, avg(reward) AS group_mean FROM trajectories GROUP BY ALL) USING (group_id, purpose)
WHERE step = $step AND model = 'policy' AND component = 'policy_gradient'
GROUP BY ALL ORDER BY moved DESC LIMIT 10;
