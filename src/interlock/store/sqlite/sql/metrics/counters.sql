-- Every counter with its labels; a bounded number.
SELECT c.metric, c.value, l.project, l.type, l.agent, l.priority, c.n
FROM metric_counts c JOIN metric_labels l ON l.id = c.labels
