-- What each token of a receipt carried. Flags: 504 a token that was cut, 512 zero advantage.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('its weight is ', any_value(w.weight)), 'at least 0, and finite'
    FROM weighed w WHERE w.weight < 0 OR NOT isfinite(w.weight) GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('flags are ', any_value(w.flags)), 'bits 0 to 11'
    FROM weighed w WHERE w.flags > 4095 GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('its weight is ', any_value(w.weight), ' although its segment was withheld as ', any_value(w.withheld)), '0'
    FROM weighed w WHERE w.withheld IN ('unscored', 'stale', 'truncated') AND w.weight <> 0
    GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), 'it opens its context, so nothing predicted it, and it has a weight', '0'
    FROM weighed w JOIN segments s USING (trajectory_id, segment) WHERE s.start = 0 AND w.index = 0 AND w.weight <> 0

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('flag zero advantage is ', CASE WHEN w.flags & 512 > 0 THEN 'set' ELSE 'not set' END,
      ' and its advantage is ', w.advantage), 'set where the advantage is 0, and only there'
    FROM weighed w WHERE w.is_main AND w.weight <> 0 AND (w.advantage = 0) <> (w.flags & 512 > 0)
    AND w.component = 'policy_gradient'

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('num_kept is ', r.num_kept),
    CASE WHEN k.least = k.most THEN concat(k.least, ', its trained tokens that no rule cut')
      ELSE concat(k.least, ' to ', k.most, ', its trained tokens without and with those that a rule cut') END
    FROM receipts r JOIN kept_of k USING (update, model, component, trajectory_id, segment)
    JOIN (SELECT update, labels['model'] AS model, value FROM metrics WHERE name = 'policy/applied') a USING (update, model)
    WHERE a.value = 1 AND (r.untrained_reason IS NULL OR r.num_kept > 0) AND r.num_kept NOT BETWEEN k.least AND k.most

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('influence is ', r.influence),
    concat(k.moved, ', Σ |weight · correction · advantage| over kept tokens')
    FROM receipts r JOIN kept_of k USING (update, model, component, trajectory_id, segment)
    WHERE r.num_kept > 0 AND (r.influence > k.moved * (1 + 1e-5) + 1e-12 OR r.influence < k.moved_least * (1 - 1e-5) - 1e-12)

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('influence is ', r.influence, ' and no token was kept'), '0'
    FROM receipts r WHERE r.num_kept = 0 AND r.influence <> 0
