-- Takes n run numbers and answers the last of them.
UPDATE counters SET value = value + :n WHERE name = 'run' RETURNING value;
