-- Metrics that stand in all steps or updates of a stage but one.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
WITH held AS (SELECT c.commit, m.step, m.update, m.name, m.labels::TEXT AS labels FROM metrics m
    JOIN shard_rows c ON c.table_name = 'metrics' AND c.kind = 'step'
      AND m.place BETWEEN c.first_row AND c.first_row + c.num_rows - 1
    WHERE list_has_all(['model', 'component', 'stat', 'side', 'quantile', 'ratio', 'when'], map_keys(m.labels))),
  stages AS (SELECT r.step, min(t.stage) AS stage FROM receipts r JOIN trajectories t USING (trajectory_id) GROUP BY r.step),
  places AS (SELECT DISTINCT stage, step, update > 0 AS is_of_update, update FROM held JOIN stages USING (step)),
  sizes AS (SELECT stage, is_of_update, count(*) AS size FROM places GROUP BY ALL),
  known AS (SELECT stage, update > 0 AS is_of_update, name, labels, count(DISTINCT (step, update)) AS stands
    FROM held JOIN stages USING (step) GROUP BY ALL)
SELECT concat('metrics step ', p.step, CASE WHEN p.is_of_update THEN concat(' update ', p.update) ELSE '' END, ' ', k.name,
    ' ', k.labels), 'it is missing', concat('a row, as in the other ', s.size - 1, ' of the stage')
FROM known k JOIN sizes s USING (stage, is_of_update) JOIN places p USING (stage, is_of_update)
LEFT JOIN held h ON h.step = p.step AND h.update = p.update AND h.name = k.name AND h.labels = k.labels
WHERE k.stands = s.size - 1 AND s.size > 3 AND h.name IS NULL
