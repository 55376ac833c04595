-- The labels in use; a bounded number.
SELECT id, project, type, agent, priority FROM interlock.metric_labels
