-- The account against all episodes.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('ledger ', l.seq), concat('it names ', l.trajectory_id, ', which is not there'), 'a row of trajectories'
  FROM ledger l ANTI JOIN trajectories t USING (trajectory_id)
  JOIN slots s USING (group_id, slot)
  -- What was ready when the run was killed is dispatched again, and its episode was in memory alone.
  WHERE l.trajectory_id IS NOT NULL AND l.state IN ('ready', 'trained') AND (l.state = 'trained' OR s.state <> 'requeued')

------
SELECT concat('trajectories ', t.trajectory_id), 'it is an episode of training and no row of the ledger names its slot',
  concat('rows of group ', t.group_id, ' slot ', t.slot)
  FROM trajectories t ANTI JOIN ledger l ON l.group_id = t.group_id AND l.slot = t.slot
  WHERE t.purpose = 'train' AND EXISTS (SELECT 1 FROM ledger)
