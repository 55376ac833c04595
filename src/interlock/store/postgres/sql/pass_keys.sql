-- Assign the keys of refused arrivals to the items that brought them again.
UPDATE interlock.dedupe_keys k SET item = w.item
FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS w(project, key, item)
WHERE k.project = w.project AND k.key = w.key
