-- Rows that name rows of other tables.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('segments ', s.trajectory_id, ' ', s.segment),
  'it answers the call ' || s.call_id || ', which is not among the tool calls', 'a row of tool_calls'
  FROM segments s LEFT JOIN tool_calls c USING (call_id) WHERE s.call_id IS NOT NULL AND c.call_id IS NULL
  AND s.copied_from IS NULL AND s.origin = 'tool'

------
SELECT DISTINCT concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment),
  'its trajectory has no such segment', 'a row of segments'
  FROM receipts r SEMI JOIN trajectories t ON t.trajectory_id = r.trajectory_id
  ANTI JOIN segments s ON s.trajectory_id = r.trajectory_id AND s.segment = r.segment
