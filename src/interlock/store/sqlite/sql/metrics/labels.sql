-- The labels in use; a bounded number.
SELECT id, project, type, agent, priority FROM metric_labels
