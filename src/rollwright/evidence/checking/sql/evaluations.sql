-- Evaluations against their episodes.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
WITH due AS (SELECT evaluation, count(DISTINCT task_id) FILTER (reward IS NOT NULL) AS num_tasks, count(*) AS num_trajectories,
    count(*) FILTER (reward IS NULL) AS num_unscored FROM evaluated GROUP BY evaluation)
  SELECT DISTINCT concat('evaluations ', e.evaluation, ' ', e.metric, ' ', e.labels::TEXT), concat('it counts ', e.num_tasks,
    ' tasks, ', e.num_trajectories, ' episodes, ', e.num_unscored, ' unscored'),
    concat(d.num_tasks, ', ', d.num_trajectories, ', ', d.num_unscored)
  FROM evaluations e JOIN due d USING (evaluation) WHERE len(map_keys(e.labels)) = 0 AND e.metric IN ('success', 'reward')
  AND (e.num_tasks, e.num_trajectories, e.num_unscored) <> (d.num_tasks, d.num_trajectories, d.num_unscored)

------
SELECT concat('segments ', e.trajectory_id, ' ', s.segment), concat('an evaluation of version ', e.policy_version,
    ' sampled it from version ', s.policy_version), e.policy_version
  FROM evaluated e JOIN segments s USING (trajectory_id)
  WHERE s.policy_version IS NOT NULL AND s.policy_version <> e.policy_version AND s.policy = e.policy

------
WITH sampled AS (SELECT evaluation, task_id, count(DISTINCT slot) AS samples, any_value(trajectory_id) AS one FROM evaluated
    GROUP BY evaluation, task_id),
  usual AS (SELECT evaluation, mode(samples) AS samples, count(*) AS tasks FROM sampled GROUP BY evaluation),
  most AS (SELECT u.*, count(*) AS same FROM usual u JOIN sampled s USING (evaluation) WHERE s.samples = u.samples GROUP BY ALL)
SELECT concat('evaluations ', evaluation, ' task ', s.task_id), concat('it was tried ', s.samples, ' times'),
    concat(m.samples, ' times, as ', m.same, ' of the ', m.tasks, ' tasks of the evaluation')
FROM sampled s JOIN most m USING (evaluation) WHERE s.samples <> m.samples AND 2 * m.same > m.tasks

------
SELECT concat('evaluations ', evaluation, ' task ', task_id), concat('its samples are ', list(DISTINCT slot)::TEXT),
    'numbered from 0 without a gap' FROM evaluated GROUP BY evaluation, task_id
HAVING max(slot) <> count(DISTINCT slot) - 1
