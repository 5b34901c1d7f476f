-- The account against all episodes.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
WITH placed AS (SELECT l.*, c.step AS committed FROM ledger l
    JOIN shard_rows c ON c.table_name = 'ledger' AND l.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1)
  SELECT concat('ledger ', l.seq), concat('it names ', l.trajectory_id, ', which is not there'), 'a row of trajectories'
  FROM placed l ANTI JOIN trajectories t USING (trajectory_id)
  WHERE l.trajectory_id IS NOT NULL AND l.state IN ('ready', 'trained')
  -- What was ready when the run ended is dispatched again as it goes on, and its episode was in memory alone.
  AND NOT (l.state = 'ready' AND EXISTS (FROM placed later JOIN resumes r ON r.step >= l.committed
    AND r.step < later.committed WHERE later.group_id = l.group_id AND later.slot = l.slot
    AND later.state = 'requeued' AND later.rule = 'restart'))

------
SELECT concat('trajectories ', t.trajectory_id), 'it is an episode of training and no row of the ledger names its slot',
  concat('rows of group ', t.group_id, ' slot ', t.slot)
  FROM trajectories t ANTI JOIN ledger l ON l.group_id = t.group_id AND l.slot = t.slot
  WHERE t.purpose = 'train' AND EXISTS (SELECT 1 FROM ledger)
