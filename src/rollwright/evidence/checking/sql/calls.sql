-- Tool calls against segments.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('tool_calls ', c.call_id), concat('asked_in is ', c.asked_in, coalesce(', a segment of origin ' || s.origin, ', which is not there')),
    'a segment that the policy wrote' FROM tool_calls c
    LEFT JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.asked_in
    WHERE s.origin IS NULL OR s.origin NOT IN ('policy', 'demonstration', 'replayed', 'teacher')

------
SELECT concat('tool_calls ', c.call_id), concat('answered_in is ', c.answered_in, coalesce(', a segment of origin ' || s.origin, ', which is not there')),
    'a segment of the tool that answers it' FROM tool_calls c
    LEFT JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.answered_in
    WHERE c.answered_in IS NOT NULL AND (s.origin IS NULL OR s.origin IN ('policy', 'demonstration', 'template')
      OR (s.call_id IS NOT NULL AND s.call_id <> c.call_id))

------
SELECT concat('tool_calls ', c.call_id), concat('answered_in ', c.answered_in, ' is not behind asked_in ', c.asked_in), 'a later segment'
    FROM tool_calls c WHERE c.answered_in <= c.asked_in

------
SELECT concat('tool_calls ', c.call_id), concat('turn is ', c.turn), concat(s.turn, ', of the segment that asked')
    FROM tool_calls c JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.asked_in
    WHERE s.turn <> c.turn

------
SELECT concat('tool_calls ', c.call_id), 'its id is not of its trajectory', concat(c.trajectory_id, '/c0 and so on')
    FROM tool_calls c WHERE NOT starts_with(c.call_id, concat(c.trajectory_id, '/c'))

------
SELECT concat('trajectories ', trajectory_id), concat('its calls are numbered otherwise than 0 to ', count(*) - 1),
    string_agg(call_id, ', ') FROM tool_calls GROUP BY trajectory_id
    HAVING max(split_part(call_id, '/c', 2)::INT) <> count(*) - 1

------
SELECT concat('tool_calls ', c.call_id), concat('no segment answers it, and status is ', c.status), concat('answered_in ', s.segment)
    FROM tool_calls c JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.call_id = c.call_id AND s.origin = 'tool'
    WHERE s.copied_from IS NULL AND c.answered_in IS DISTINCT FROM s.segment AND c.answered_in IS NULL

------
SELECT concat('tool_calls ', c.call_id), concat('retention is ', retention, ' and result is there'), 'inline'
    FROM tool_calls c WHERE retention <> 'inline' AND result IS NOT NULL

------
SELECT concat('segments ', trajectory_id, ' ', segment), concat('it ends in finish tool_call and no call was asked in it'),
    'a row of tool_calls' FROM segments s WHERE finish = 'tool_call' AND origin IN ('policy', 'demonstration')
    AND NOT EXISTS (SELECT 1 FROM tool_calls c WHERE c.trajectory_id = s.trajectory_id AND c.turn = s.turn)

------
SELECT concat('tool_calls ', c.call_id), concat('latency_s is ', latency_s), 'at least 0' FROM tool_calls c WHERE latency_s < 0

------
SELECT concat('segments ', c.trajectory_id, ' ', s.segment), concat('it answers ', c.call_id, ' and is of origin ', s.origin,
    CASE WHEN s.call_id IS NULL THEN ' without the call''s id' ELSE '' END), 'origin tool with the id of the call'
FROM tool_calls c JOIN segments s ON s.trajectory_id = c.trajectory_id AND s.segment = c.answered_in
WHERE c.tool <> '' AND c.status <> 'invalid_call' AND (s.origin <> 'tool' OR s.call_id IS NULL)
