-- Receipts against segments and against each other.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('it weighs tokens of origin ', s.origin, coalesce(' of ' || s.policy, ''),
    ' under ', r.component), coalesce((SELECT string_agg(DISTINCT e.origin || coalesce(' of ' || e.policy, ''), ', ')
    FROM eligible e WHERE e.model = r.model AND e.component = r.component), 'nothing: no such component is listed') || ' only'
  FROM receipts r JOIN segments s USING (trajectory_id, segment)
  ANTI JOIN eligible e ON e.model = r.model AND e.component = r.component AND e.origin = s.origin
    AND e.policy IS NOT DISTINCT FROM s.policy

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('num_eligible is ', r.num_eligible), concat(s.num_tokens - (s.start = 0)::INT, ', its tokens')
    FROM receipts r JOIN segments s USING (trajectory_id, segment)
    WHERE r.num_eligible <> s.num_tokens - (s.start = 0 AND s.num_tokens > 0)::INT

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('num_kept is ', r.num_kept), concat('0 to ', r.num_eligible)
    FROM receipts r WHERE r.num_kept < 0 OR r.num_kept > r.num_eligible

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('untrained_reason is ', r.untrained_reason, ' and influence ', r.influence), 'influence 0'
    FROM receipts r WHERE r.untrained_reason IS NOT NULL AND r.influence <> 0

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('untrained_reason is ', r.untrained_reason),
    'zero_contrast, unscored, truncated, stale, rejected or another reason of a rule' FROM receipts r
    WHERE r.untrained_reason = ''

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('it was unscored and not withheld'), 'untrained_reason unscored'
    FROM receipts r JOIN trajectories t USING (trajectory_id) WHERE t.reward IS NULL AND t.purpose = 'train'
    AND r.untrained_reason IS NULL AND r.model = 'policy' AND r.num_kept > 0

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('influence is ', r.influence), 'at least 0' FROM receipts r WHERE r.influence < 0

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('entropy is ', r.entropy), 'at least 0 nats' FROM receipts r WHERE r.entropy < -1e-4

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('max_log_ratio is ', r.max_log_ratio), 'at least 0' FROM receipts r WHERE r.max_log_ratio < 0

------
SELECT concat('update ', update), concat('it is of the steps ', list(DISTINCT step)::TEXT), 'one step'
    FROM receipts GROUP BY update HAVING count(DISTINCT step) > 1

------
SELECT concat('step ', step), concat('its updates begin at ', low, ' before those of step ', before, ' end'), 'updates in order'
    FROM (SELECT step, low, lag(step) OVER (ORDER BY step) AS before, lag(high) OVER (ORDER BY step) AS last FROM
      (SELECT step, min(update) AS low, max(update) AS high FROM receipts GROUP BY step)) WHERE low <= last

------
SELECT concat('receipts ', update, ' ', component, ' ', trajectory_id), concat('its segments stand in the rows ',
      list(DISTINCT row_index)::TEXT, ' and are one branch'), 'one row'
    FROM receipts r JOIN (SELECT trajectory_id FROM segments GROUP BY trajectory_id
      HAVING count(*) - count(DISTINCT parent) <= 1) one USING (trajectory_id)
    GROUP BY update, component, trajectory_id HAVING count(DISTINCT row_index) > 1

------
SELECT concat('receipts ', update, ' ', component, ' row ', row_index), concat('row ', row_index, ' is of ',
      string_agg(DISTINCT trajectory_id, ' and ')), 'one trajectory'
    FROM receipts GROUP BY update, component, row_index HAVING count(DISTINCT trajectory_id) > 1

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id), concat('its row ', r.row_index,
      ' stands before one of ', r.before), 'rows by group, slot and attempt'
    FROM (SELECT DISTINCT update, component, r.trajectory_id, row_index, t.group_id, t.slot, t.attempt,
      lag(r.trajectory_id) OVER w AS before, lag((t.group_id, t.slot, t.attempt)) OVER w AS earlier
      FROM receipts r JOIN trajectories t USING (trajectory_id)
      WINDOW w AS (PARTITION BY update, model, component ORDER BY row_index, r.segment)) r
    WHERE (r.group_id, r.slot, r.attempt) < r.earlier
