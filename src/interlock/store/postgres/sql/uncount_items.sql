-- Subtract deleted items from the counts.
INSERT INTO interlock.tally_changes (was, priority, n)
SELECT status, priority, count(*) FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) GROUP BY status, priority
