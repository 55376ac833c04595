-- Add new labels, by the process that moved the mark.
INSERT INTO interlock.metric_labels (id, project, type, agent, priority)
SELECT (r ->> 0)::integer, r ->> 1, r ->> 2, r ->> 3, r ->> 4 FROM jsonb_array_elements(%(rows)s::jsonb) AS r
