-- Trajectories against all of their segments.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
WITH counted AS (SELECT trajectory_id, coalesce(sum(len(token_ids)), 0) AS num_tokens,
  coalesce(sum(len(token_ids)) FILTER (origin IN ('policy', 'demonstration')), 0) AS num_action_tokens,
  count(DISTINCT (actor, turn)) FILTER (origin IN ('policy', 'demonstration', 'teacher')) AS num_turns
  FROM segments GROUP BY trajectory_id)
  SELECT concat('trajectories ', t.trajectory_id), concat(w.name, ' is ', w.said), concat(w.due, ', what its segments hold')
  FROM trajectories t JOIN counted c USING (trajectory_id), LATERAL (SELECT unnest([
    {'name': 'num_tokens', 'said': t.num_tokens::BIGINT, 'due': c.num_tokens::BIGINT},
    {'name': 'num_action_tokens', 'said': t.num_action_tokens::BIGINT, 'due': c.num_action_tokens::BIGINT},
    {'name': 'num_turns', 'said': t.num_turns::BIGINT, 'due': c.num_turns::BIGINT}], recursive := true)) w
  WHERE w.said <> w.due

------
SELECT concat('trajectories ', t.trajectory_id), concat('num_tokens is ', num_tokens, ' and it has no segments'), 'its segments'
  FROM trajectories t ANTI JOIN segments USING (trajectory_id) WHERE num_tokens > 0
