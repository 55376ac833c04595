-- Takes n run numbers and answers the last of them.
UPDATE numbers SET value = value + :n WHERE name = 'run' RETURNING value;
