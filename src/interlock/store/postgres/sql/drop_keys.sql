-- A refused arrival leaves no row, so its key may come again.
DELETE FROM interlock.dedupe_keys k USING unnest(%s::text[], %s::text[]) AS gone(project, key)
WHERE k.project = gone.project AND k.key = gone.key
