-- Add the ends of tasks, for the editor.
INSERT INTO interlock.completions (plan, n, item, key, status, at_us)
SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::bigint[], %s::text[], %s::text[], %s::bigint[])
