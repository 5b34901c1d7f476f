-- Parts of rewards that need all verdicts.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('trajectories ', t.trajectory_id), concat('no verdict stands behind the part ', t.part.name, ' of its reward'),
  'a verdict of scoring 0'
  FROM (SELECT trajectory_id, unnest(reward_components) AS part FROM trajectories) t
  ANTI JOIN (SELECT * FROM verdicts WHERE scoring = 0) v ON v.trajectory_id = t.trajectory_id AND v.verifier = t.part.name
