-- Delete the key of a refused arrival, which leaves no row, so that the key may come again.
DELETE FROM interlock.dedupe_keys k USING unnest(%s::text[], %s::text[]) AS gone(project, key)
WHERE k.project = gone.project AND k.key = gone.key
