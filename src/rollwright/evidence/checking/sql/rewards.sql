-- Rewards, their parts, and verdicts.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('trajectories ', trajectory_id), CASE WHEN reward IS NULL THEN 'it has neither a reward nor a reason for none'
      ELSE concat('it has the reward ', reward, ' and the reason ', unscored_reason, ' for none') END, 'one of the two'
    FROM trajectories WHERE (reward IS NULL) = (unscored_reason IS NULL)

------
SELECT concat('trajectories ', trajectory_id), concat('it ended by ', terminal_reason, ' and has the reward ', reward),
    'no reward: an error is not one' FROM trajectories
    WHERE terminal_reason IN ('infrastructure_failure', 'aborted', 'superseded') AND reward IS NOT NULL

------
SELECT concat('trajectories ', t.trajectory_id), concat('part ', t.part.name, ' of its reward is ', t.part.value),
    concat(coalesce(v.value::TEXT, v.error_cause), ', what the verifier said')
    FROM (SELECT trajectory_id, unnest(reward_components) AS part FROM trajectories) t
    JOIN verdicts v ON v.trajectory_id = t.trajectory_id AND v.verifier = t.part.name AND v.scoring = 0
      AND v.scope IN ('trajectory', 'group')
    WHERE v.value IS DISTINCT FROM t.part.value

------
SELECT concat('trajectories ', v.trajectory_id), concat('its reward lacks the part ', v.verifier),
    concat(v.value, ', what the verifier said')
    FROM verdicts v JOIN trajectories t USING (trajectory_id)
    WHERE v.scoring = 0 AND v.scope IN ('trajectory', 'group') AND v.status = 'ok' AND len(t.reward_components) > 0
    AND NOT list_contains(list_transform(t.reward_components, lambda c: c.name), v.verifier)

------
SELECT concat('verdicts ', trajectory_id, ' ', verifier), concat('status is ', status, ', value ',
      coalesce(value::TEXT, 'none'), ', cause ', coalesce(error_cause, 'none')), 'a value or a cause, as its status says'
    FROM verdicts WHERE (status = 'ok') <> (value IS NOT NULL) OR (status = 'error') <> (error_cause IS NOT NULL)

------
SELECT concat('verdicts ', v.trajectory_id, ' ', v.verifier), concat('its span is of segment ', v.segment, ', ',
      v.token_start, ' to ', v.token_end), 'tokens of a segment that is there'
    FROM verdicts v LEFT JOIN segments s USING (trajectory_id, segment)
    WHERE v.segment >= 0 AND (s.segment IS NULL OR v.token_start < 0 OR v.token_end > s.num_tokens)

------
SELECT concat('trajectories ', v.trajectory_id), concat('it has the reward ', t.reward, ' although ', v.verifier,
      ' gave no number (', v.error_cause, ')'), 'no reward'
    FROM verdicts v JOIN trajectories t USING (trajectory_id),
      LATERAL (SELECT count(*) AS counted FROM (SELECT unnest(t.reward_components) AS c) WHERE c.name = v.verifier) n
    WHERE v.scoring = 0 AND v.status = 'error' AND v.scope = 'trajectory' AND t.reward IS NOT NULL AND n.counted > 0
