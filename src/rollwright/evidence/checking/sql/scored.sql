-- What models said of each token of a receipt. Flags: 504 a token that was cut, 64 not finite.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('proximal_logprobs holds ', any_value(w.proximal)), 'at most 0, and finite'
        FROM weighed w WHERE (w.proximal > 1e-6 OR isinf(w.proximal)) AND w.flags & 64 = 0
        GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('current_logprobs holds ', any_value(w.current)), 'at most 0, and finite'
        FROM weighed w WHERE (w.current > 1e-6 OR isinf(w.current)) AND w.flags & 64 = 0
        GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('reference_logprobs holds ', any_value(w.reference)), 'at most 0, and finite'
        FROM weighed w WHERE (w.reference > 1e-6 OR isinf(w.reference)) AND w.flags & 64 = 0
        GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('behavior says ', w.behavior, ' and proximal ', w.proximal, ' under equal weights: ',
      abs(w.behavior - w.proximal), ' nats apart'), concat('at most ', b.bound)
    FROM weighed w JOIN (SELECT update, labels['model'] AS model,
        greatest(coalesce(max(value), 0.1) * 1.001, 1e-6) AS bound FROM metrics
        WHERE name = 'mismatch/logp_abs' AND labels['stat'] = 'max' AND len(map_keys(labels)) = 2 GROUP BY ALL) b USING (update, model)
    WHERE w.lag = 0 AND w.weight <> 0 AND w.policy_version = w.step - 1 AND abs(w.behavior - w.proximal) > b.bound

------
SELECT concat_ws('/', w.trajectory_id, w.segment, w.index), concat('behavior says ', any_value(w.behavior), ' and proximal ', any_value(w.proximal), ' under equal weights'),
    'at most 0.1 nats apart'
    FROM weighed w WHERE w.lag = 0 AND w.weight <> 0 AND w.policy_version = w.step - 1 AND abs(w.behavior - w.proximal) > 0.1
    GROUP BY w.trajectory_id, w.segment, w.index

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), concat('max_log_ratio is ', r.max_log_ratio), concat(k.most, ', of its log-probabilities')
    FROM receipts r JOIN (SELECT update, model, component, trajectory_id, segment,
      max(abs(current::DOUBLE - behavior)) FILTER (weight <> 0 AND flags & 504 = 0) AS most FROM weighed WHERE is_main GROUP BY ALL) k
      USING (update, model, component, trajectory_id, segment)
    WHERE r.max_log_ratio IS NOT NULL AND k.most IS NOT NULL AND abs(r.max_log_ratio - k.most) > 1e-5 * greatest(k.most, 1e-2)

------
SELECT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment), 'its proximal log-probabilities are missing although its tokens were trained', 'one a token'
    FROM receipts r JOIN (SELECT DISTINCT update, model, component FROM receipts WHERE proximal_logprobs IS NOT NULL) p
      USING (update, model, component)
    WHERE r.proximal_logprobs IS NULL AND r.num_kept > 0 AND r.advantage IS NOT NULL
