SELECT state, count(*) AS slots, count(DISTINCT group_id) AS groups, count(DISTINCT task_id) AS tasks
FROM slots GROUP BY state ORDER BY state;
