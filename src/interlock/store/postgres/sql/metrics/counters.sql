-- Every counter with its labels; a bounded number.
SELECT c.metric, c.value, l.project, l.type, l.agent, l.priority, c.n
FROM interlock.metric_counts c JOIN interlock.metric_labels l ON l.id = c.labels
