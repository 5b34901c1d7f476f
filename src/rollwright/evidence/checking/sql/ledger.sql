-- The account of slots.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('group ', group_id, ' slot ', slot, ' attempt ', attempt),
    concat('the slot was trained ', count(*), ' times'), 'once'
    FROM ledger WHERE state = 'trained' GROUP BY group_id, slot, attempt HAVING count(*) > 1

------
SELECT concat('group ', group_id), concat('it was dispatched for ', count(DISTINCT task_id), ' tasks'), 'one'
    FROM ledger GROUP BY group_id HAVING count(DISTINCT task_id) > 1

------
SELECT concat('ledger ', seq), concat('state ', state, ' names no trajectory'), 'the episode that came to it'
    FROM ledger WHERE state IN ('ready', 'trained') AND trajectory_id IS NULL

------
SELECT concat('ledger ', seq), concat('state ', state, ' names no rule'), 'the rule that decided it'
    FROM ledger WHERE state = 'filtered' AND rule IS NULL

------
SELECT concat('ledger ', l.seq), concat('it is of group ', l.group_id, ' slot ', l.slot, ' attempt ', l.attempt,
      ' and task ', l.task_id, ' and names ', l.trajectory_id),
    concat('group ', t.group_id, ' slot ', t.slot, ' attempt ', t.attempt, ' and task ', t.task_id)
    FROM ledger l JOIN trajectories t USING (trajectory_id)
    WHERE (l.group_id, l.slot, l.attempt, l.task_id) <> (t.group_id, t.slot, t.attempt, t.task_id)
    OR t.purpose <> 'train' OR l.task_source <> t.task_source

------
SELECT concat('ledger ', seq), concat('its successor is group ', successor, ', which was never dispatched'),
    'a group of the ledger, or one that comes later'
    FROM ledger l WHERE successor IS NOT NULL AND successor <= group_id

------
SELECT concat('ledger ', l.seq), concat('trained in step ', l.step, ' from policy version ', l.policy_version),
    concat(l.step - 1, ' or older') FROM ledger l WHERE policy_version > step

------
SELECT concat('ledger ', s.seq), concat('it is ', s.state, ' and has ', count(*), ' receipts'), 'none: only trained slots have'
    FROM slots s JOIN receipts r USING (trajectory_id) WHERE s.state <> 'trained' GROUP BY s.seq, s.state
