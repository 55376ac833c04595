-- Add new labels, by the process that moved the mark.
INSERT INTO metric_labels (id, project, type, agent, priority)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows)
