-- Numbers go on after those of the items and runs that are there.
UPDATE numbers SET value = CASE name WHEN 'run' THEN (SELECT ifnull(max(run), 0) FROM runs) ELSE :last END;
