-- The first items of known keys.
SELECT k.project, k.key, k.item FROM interlock.dedupe_keys k
JOIN unnest(%(projects)s::text[], %(keys)s::text[]) AS w(project, key) ON k.project = w.project AND k.key = w.key
